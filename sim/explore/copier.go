package explore

import (
	"reflect"
	"strings"
	"sync"
	"time"
	"unsafe"

	"google.golang.org/protobuf/proto"

	"github.com/quotalease/quotalease/agent/core"
)

// copier makes a deep copy of a graph of objects, private fields included: a world that can be
// copied need not be played again from its beginning for every step that it could take next.
// The copy shares with its original what nobody changes (messages, policy, places) and, since a
// function cannot be looked into, functions, but for those that its user replaced.
//
// It knows nothing of the fields, so none can be forgotten. TestACopyLivesItsOwnLife holds
// copies against worlds that were played from the start.
type copier struct {
	done map[unsafe.Pointer]unsafe.Pointer // objects copied, and what became of them
}

// fix makes what is at a place, a shallow copy so far, independent of its original. A nil fix
// says that there is nothing to do for a type.
type fix func(c *copier, at unsafe.Pointer)

// copyOf returns a deep copy of what p points to. replace maps functions of the original to those of
// the copy; it is asked for the copy once that has its place and before it is filled.
func copyOf[T any](p *T, replace func(c *copier, to *T)) *T {
	c := &copier{done: make(map[unsafe.Pointer]unsafe.Pointer, 128)}
	to := new(T)
	*to = *p
	c.done[unsafe.Pointer(p)] = unsafe.Pointer(to)
	replace(c, to)
	if f := fixOf(reflect.TypeFor[T]()); f != nil {
		f(c, unsafe.Pointer(to))
	}
	return to
}

// replaceFunc says what a function of the original is in the copy.
func replaceFunc[F any](c *copier, from, to *F) {
	c.done[*(*unsafe.Pointer)(unsafe.Pointer(from))] = *(*unsafe.Pointer)(unsafe.Pointer(to))
}

var (
	fixes       sync.Map // reflect.Type to *fix; complete or being made
	messageType = reflect.TypeFor[proto.Message]()
	sharedTypes = map[reflect.Type]bool{
		reflect.TypeFor[time.Location]():  true,
		reflect.TypeFor[core.Dimension](): true,
		reflect.TypeFor[World]():          true,
		reflect.TypeFor[print]():          true,
		reflect.TypeFor[books]():          true,
	}
)

// fixOf returns what copies of a type need.
func fixOf(t reflect.Type) fix {
	if known, ok := fixes.Load(t); ok {
		return *known.(*fix)
	}
	f := makeFix(t)
	fixes.Store(t, &f)
	return f
}

func makeFix(t reflect.Type) fix {
	switch t.Kind() {
	case reflect.Pointer:
		return fixPointer(t.Elem(), t.Implements(messageType))
	case reflect.Slice:
		return fixSlice(t)
	case reflect.Map:
		return fixMap(t)
	case reflect.Func:
		return func(c *copier, at unsafe.Pointer) {
			if to, ok := c.done[*(*unsafe.Pointer)(at)]; ok {
				*(*unsafe.Pointer)(at) = to
			}
		}
	case reflect.Interface:
		return fixInterface(t)
	case reflect.Struct:
		if t.PkgPath() == "sync/atomic" && strings.HasPrefix(t.Name(), "Pointer[") {
			field, _ := t.FieldByName("v")
			pointer := fixPointer(t.Field(0).Type.Elem().Elem(), false)
			if pointer == nil {
				return nil
			}
			return func(c *copier, at unsafe.Pointer) { pointer(c, unsafe.Add(at, field.Offset)) }
		}
		return fixStruct(t)
	case reflect.Array:
		return fixArray(t)
	default:
		return nil
	}
}

func fixPointer(elem reflect.Type, shared bool) fix {
	if shared || sharedTypes[elem] {
		return nil
	}
	// A type may point to itself: its fix is looked up when it is needed.
	return func(c *copier, at unsafe.Pointer) {
		p := (*unsafe.Pointer)(at)
		if *p != nil {
			*p = c.object(*p, elem)
		}
	}
}

// object copies one object, once.
func (c *copier) object(p unsafe.Pointer, t reflect.Type) unsafe.Pointer {
	if to, ok := c.done[p]; ok {
		return to
	}
	v := reflect.New(t)
	to := v.UnsafePointer()
	c.done[p] = to
	v.Elem().Set(reflect.NewAt(t, p).Elem())
	if f := fixOf(t); f != nil {
		f(c, to)
	}
	return to
}

func fixSlice(t reflect.Type) fix {
	elem := t.Elem()
	return func(c *copier, at unsafe.Pointer) {
		v := reflect.NewAt(t, at).Elem()
		n := v.Len()
		if v.IsNil() {
			return
		}
		list := reflect.MakeSlice(t, n, n)
		reflect.Copy(list, v)
		v.Set(list)
		f := fixOf(elem)
		if f == nil {
			return
		}
		for i := range n {
			f(c, unsafe.Add(list.UnsafePointer(), uintptr(i)*elem.Size()))
		}
	}
}

func fixMap(t reflect.Type) fix {
	return func(c *copier, at unsafe.Pointer) {
		v := reflect.NewAt(t, at).Elem()
		if v.IsNil() {
			return
		}
		m := reflect.MakeMapWithSize(t, v.Len())
		for all := v.MapRange(); all.Next(); {
			m.SetMapIndex(c.value(all.Key()), c.value(all.Value()))
		}
		v.Set(m)
	}
}

// value copies what stands at no place of its own.
func (c *copier) value(v reflect.Value) reflect.Value {
	f := fixOf(v.Type())
	if f == nil {
		return v
	}
	to := reflect.New(v.Type())
	to.Elem().Set(v)
	f(c, to.UnsafePointer())
	return to.Elem()
}

func fixInterface(t reflect.Type) fix {
	return func(c *copier, at unsafe.Pointer) {
		v := reflect.NewAt(t, at).Elem()
		if !v.IsNil() {
			v.Set(c.value(v.Elem()))
		}
	}
}

func fixStruct(t reflect.Type) fix {
	type part struct {
		offset uintptr
		fix    fix
	}
	var parts []part
	for i := range t.NumField() {
		if f := fixOf(t.Field(i).Type); f != nil {
			parts = append(parts, part{t.Field(i).Offset, f})
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return func(c *copier, at unsafe.Pointer) {
		for _, p := range parts {
			p.fix(c, unsafe.Add(at, p.offset))
		}
	}
}

func fixArray(t reflect.Type) fix {
	f, size, n := fixOf(t.Elem()), t.Elem().Size(), t.Len()
	if f == nil {
		return nil
	}
	return func(c *copier, at unsafe.Pointer) {
		for i := range n {
			f(c, unsafe.Add(at, uintptr(i)*size))
		}
	}
}
