{{/*
homeward.object prints one object after its merge and patch.
Arguments: object (YAML text), merge (map), patch (list of op, path, value).
*/}}
{{- define "homeward.object" -}}
{{- $object := fromYaml .object -}}
{{- if hasKey $object "Error" }}{{ fail (printf "the chart renders an object that is not YAML: %s" $object.Error) }}{{ end -}}
{{- with .merge }}{{ $object = mustMergeOverwrite $object (deepCopy .) }}{{ end -}}
{{- range .patch }}
{{- $box := dict "v" $object -}}
{{- $steps := list -}}
{{- range (slice (splitList "/" .path) 1) }}{{ $steps = append $steps (. | replace "~1" "/" | replace "~0" "~") }}{{ end -}}
{{- include "homeward.patch" (dict "box" $box "steps" $steps "op" .op "value" .value "path" .path) -}}
{{- $object = $box.v -}}
{{- end }}
{{- include "homeward.dropNulls" $object -}}
{{- toYaml $object -}}
{{- end }}

{{/*
homeward.patch applies one step of a JSON patch (RFC 6902: add, replace and remove) to box.v,
in place. It prints nothing.
*/}}
{{- define "homeward.patch" -}}
{{- $at := first .steps -}}
{{- $rest := rest .steps -}}
{{- $in := .box.v -}}
{{- if not (has .op (list "add" "replace" "remove")) }}{{ fail (printf "patch: op %q of %s is none of add, replace and remove" .op .path) }}{{ end -}}
{{- if kindIs "map" $in -}}
  {{- if and (or $rest (ne .op "add")) (not (hasKey $in $at)) }}{{ fail (printf "patch: there is no %s" .path) }}{{ end -}}
  {{- if $rest -}}
    {{- $box := dict "v" (index $in $at) -}}
    {{- include "homeward.patch" (dict "box" $box "steps" $rest "op" .op "value" .value "path" .path) -}}
    {{- $_ := set $in $at $box.v -}}
  {{- else if eq .op "remove" -}}
    {{- $_ := unset $in $at -}}
  {{- else -}}
    {{- $_ := set $in $at .value -}}
  {{- end -}}
{{- else if kindIs "slice" $in -}}
  {{- $n := ternary (len $in) (atoi $at) (eq $at "-") -}}
  {{- if or (gt $n (len $in)) (and (eq $n (len $in)) (or $rest (ne .op "add"))) }}{{ fail (printf "patch: there is no %s" .path) }}{{ end -}}
  {{- $out := slice $in 0 $n -}}
  {{- $behind := slice $in $n -}}
  {{- if $rest -}}
    {{- $box := dict "v" (index $in $n) -}}
    {{- include "homeward.patch" (dict "box" $box "steps" $rest "op" .op "value" .value "path" .path) -}}
    {{- $out = append $out $box.v -}}
    {{- $behind = rest $behind -}}
  {{- else if eq .op "remove" -}}
    {{- $behind = rest $behind -}}
  {{- else -}}
    {{- if eq .op "replace" }}{{ $behind = rest $behind }}{{ end -}}
    {{- $out = append $out .value -}}
  {{- end -}}
  {{- $_ := set .box "v" (concat $out $behind) -}}
{{- else -}}
  {{- fail (printf "patch: there is no %s" .path) -}}
{{- end -}}
{{- end }}
