package claimtest

import (
	"fmt"
	"reflect"
	"time"
)

// Fill sets every exported field of what v points to, at any depth, to a value of its own: none is
// zero, and no two of one type are alike. A list gets two elements. Tests of what
// carries or keeps a type of the domain fill it, so that they fail when a field that was added is
// dropped on the way. A field with few values, as a state, is set by the test afterwards.
//
// Times are whole microseconds in UTC and durations whole milliseconds, the least that stores and
// messages keep. Fill panics for a type that has no such value, as an interface.
func Fill(v any) { fillFrom(0, v) }

// fillFrom is Fill with other values for another n.
func fillFrom(n int, v any) { fill(reflect.ValueOf(v).Elem(), "", &n) }

func fill(v reflect.Value, name string, n *int) {
	*n++
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.UnixMicro(1_700_000_000_000_000 + int64(*n)*1_000_001).UTC()))
		return
	case time.Duration:
		v.SetInt(int64(time.Duration(*n) * time.Millisecond))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint(name, *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint8:
		v.SetUint(uint64(*n%255 + 1))
	case reflect.Uint, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*n))
	case reflect.Float64:
		v.SetFloat(float64(*n) + 0.5)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), name, n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			if of := v.Index(i); of.Kind() == reflect.Uint8 {
				of.SetUint(uint64((*n + i) % 256))
			} else {
				fill(of, name, n)
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				fill(v.Field(i), f.Name, n)
			}
		}
	default:
		panic(fmt.Sprintf("claimtest: no value fills %s, a %s", name, v.Type()))
	}
}
