#include "textflag.h"

// func callClock(entry uintptr, clock int32) (ns int64)
//
// The kernel's code runs on this goroutine's stack, so the frame is large enough for it: it needs
// some hundred bytes, and calls nothing of ours. It finds the stack aligned as C wants it, and
// leaves BX as it was.
TEXT ·callClock(SB), 0, $2048-24
	MOVQ entry+0(FP), AX
	MOVL clock+8(FP), DI
	MOVQ SP, BX
	SUBQ $16, SP // a struct timespec
	ANDQ $~15, SP
	MOVQ SP, SI
	CALL AX
	MOVQ 0(SP), CX
	MOVQ 8(SP), DX
	MOVQ BX, SP
	TESTL AX, AX
	JNE  failed
	IMULQ $1000000000, CX
	ADDQ DX, CX
	MOVQ CX, ns+16(FP)
	RET
failed:
	MOVQ $-1, ns+16(FP)
	RET
