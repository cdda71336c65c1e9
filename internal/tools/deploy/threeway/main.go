// Command threeway applies one rendering of a chart over another as helm 3 does, and kubectl
// apply: with the client's three-way merge of Kubernetes' own library. It prints each object
// of which the merge makes something else than the new rendering says, and exits with 1.
//
//	threeway OLD.yaml NEW.yaml
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: threeway OLD.yaml NEW.yaml")
		os.Exit(2)
	}
	wrong, err := compare(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "threeway:", err)
		os.Exit(2)
	}
	for _, w := range wrong {
		fmt.Println(w)
	}
	if len(wrong) > 0 {
		os.Exit(1)
	}
}

func compare(from, to string) (wrong []string, err error) {
	before, err := read(from)
	if err != nil {
		return nil, err
	}
	after, err := read(to)
	if err != nil {
		return nil, err
	}
	merged := 0
	for name, now := range after {
		was, ok := before[name]
		if !ok {
			continue
		}
		got, known, err := merge(was, now)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if !known { // a custom resource, whose lists no merge looks into
			continue
		}
		merged++
		if !same(got, now) {
			wrong = append(wrong, fmt.Sprintf("%s becomes\n%s\nand not\n%s", name, text(got), text(now)))
		}
	}
	if merged == 0 {
		return nil, fmt.Errorf("%s and %s have no object in common", from, to)
	}
	return wrong, nil
}

// read returns the objects of a file, as JSON, by kind and name.
func read(file string) (map[string][]byte, error) {
	all, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	objects := map[string][]byte{}
	for doc := range strings.SplitSeq("\n"+string(all), "\n---") {
		object, err := yaml.YAMLToJSON([]byte(doc))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		var u unstructured.Unstructured
		if string(object) == "null" {
			continue
		}
		if err := u.UnmarshalJSON(object); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		objects[u.GetKind()+"/"+u.GetName()] = object
	}
	return objects, nil
}

// merge applies now over was, which is both what was applied last and what there is.
func merge(was, now []byte) (got []byte, known bool, err error) {
	var u unstructured.Unstructured
	if err := u.UnmarshalJSON(now); err != nil {
		return nil, false, err
	}
	if !scheme.Scheme.Recognizes(u.GroupVersionKind()) {
		return nil, false, nil
	}
	typed, err := scheme.Scheme.New(u.GroupVersionKind())
	if err != nil {
		return nil, false, err
	}
	meta, err := strategicpatch.NewPatchMetaFromStruct(typed)
	if err != nil {
		return nil, false, err
	}
	patch, err := strategicpatch.CreateThreeWayMergePatch(was, now, was, meta, true)
	if err != nil {
		return nil, false, err
	}
	got, err = strategicpatch.StrategicMergePatchUsingLookupPatchMeta(was, patch, meta)
	return got, true, err
}

func same(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

func text(object []byte) string {
	out, err := yaml.JSONToYAML(object)
	if err != nil {
		return string(object)
	}
	return string(out)
}
