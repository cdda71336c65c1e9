{{- define "homeward.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{- define "homeward.selector" -}}
app.kubernetes.io/name: homeward
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "homeward.labels" -}}
{{ include "homeward.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
homeward.io/region: {{ .Values.region }}
{{- end }}

{{- define "homeward.image" -}}
{{- with .Values.image }}{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}{{ end -}}
{{- end }}

{{- define "homeward.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "homeward.name" .) -}}
{{- end }}

{{- define "homeward.tlsSecret" -}}
{{- if eq .Values.tls.mode "certManager" }}{{ include "homeward.name" . }}-tls{{ else }}{{ required "tls.existingSecret.name: name the Secret with tls.crt, tls.key and ca.crt" .Values.tls.existingSecret.name }}{{ end -}}
{{- end }}

{{/* homeward.secrets: variable → {name, key} of every secret that is set. */}}
{{- define "homeward.secrets" -}}
{{- $s := .Values.secrets -}}
{{- $all := dict
  "HOMEWARD_DATABASE_URL" (dict "name" (required "secrets.database.name: name the Secret with the database's URL" $s.database.name) "key" $s.database.key)
  "HOMEWARD_GOSSIP_KEY" (dict "name" (required "secrets.gossip.name: name the Secret with the gossip keys" $s.gossip.name) "key" $s.gossip.key) -}}
{{- if $s.seal.name }}{{ $_ := set $all "HOMEWARD_SEAL_KEYS" (dict "name" $s.seal.name "key" $s.seal.key) }}{{ end -}}
{{- range $variable, $from := $s.extra }}{{ $_ := set $all $variable $from }}{{ end -}}
{{- toYaml $all -}}
{{- end }}

{{/*
homeward.isGateway: true if the nodes are a gateway in front of another API, "" otherwise.
The value gateway is another thing: a route of Kubernetes' Gateway API to the nodes.
*/}}
{{- define "homeward.isGateway" -}}
{{- with .Values.config.gateway }}{{ if or .upstream .upstreams }}true{{ end }}{{ end -}}
{{- end }}

{{/* homeward.probe: the httpGet of a probe. Arguments: root, path. */}}
{{- define "homeward.probe" -}}
{{- $get := dict "path" .path "port" "api" -}}
{{- if include "homeward.isGateway" .root -}}
{{- $_ := set $get "path" (printf "/_homeward%s" .path) -}}
{{- with .root.Values.config.gateway.tls }}{{ if .cert }}{{ $_ := set $get "scheme" "HTTPS" }}{{ end }}{{ end -}}
{{- end -}}
{{- toJson $get -}}
{{- end }}

{{/* homeward.settings: the node's settings file. */}}
{{- define "homeward.settings" -}}
{{- include "homeward.check" . -}}
{{- $seeds := list (printf "%s-gossip.%s.svc:%v" (include "homeward.name" .) .Release.Namespace .Values.ports.gossip) -}}
{{- range $_, $peer := .Values.peers }}{{ $seeds = concat $seeds $peer.gossip }}{{ end -}}
{{- $own := dict
  "node" (dict "region" (required "region: name the region of this release" .Values.region))
  "api" (dict "listen" (printf "0.0.0.0:%v" .Values.ports.api))
  "rpc" (dict "listen" (printf "0.0.0.0:%v" .Values.ports.rpc))
  "tls" (dict "cert" "/etc/homeward/tls/tls.crt" "key" "/etc/homeward/tls/tls.key" "ca" "/etc/homeward/tls/ca.crt" "trust_domain" .Values.tls.trustDomain)
  "gossip" (dict "listen" (printf "0.0.0.0:%v" .Values.ports.gossip) "seeds" $seeds)
  "metrics" (dict "listen" (printf "0.0.0.0:%v" .Values.ports.metrics))
  "drain" .Values.drain -}}
{{- if .Values.tls.revoked.name }}{{ $_ := set $own.tls "revoked" (printf "/etc/homeward/revoked/%s" .Values.tls.revoked.key) }}{{ end -}}
{{- $config := deepCopy .Values.config -}}
{{- include "homeward.dropNulls" $config -}}
{{- include "homeward.respell" $config -}}
{{- toYaml (mustMerge $own $config) -}}
{{- end }}

{{/* homeward.dropNulls removes null values in place: their defaults hold. */}}
{{- define "homeward.dropNulls" -}}
{{- $in := . -}}
{{- if kindIs "map" $in -}}
{{- range $name, $value := $in }}{{ if kindIs "invalid" $value }}{{ $_ := unset $in $name }}{{ else }}{{ include "homeward.dropNulls" $value }}{{ end }}{{ end -}}
{{- else if kindIs "slice" $in -}}
{{- range $in }}{{ include "homeward.dropNulls" . }}{{ end -}}
{{- end -}}
{{- end }}

{{/*
homeward.respell renames settings from true to on, in place: Helm's YAML reads the name on as
true.
*/}}
{{- define "homeward.respell" -}}
{{- $in := . -}}
{{- range $name, $value := . -}}
{{- if kindIs "map" $value }}{{ include "homeward.respell" $value }}{{ end -}}
{{- if eq $name "true" }}{{ $_ := set $in "on" $value }}{{ $_ := unset $in "true" }}{{ end -}}
{{- end -}}
{{- end }}

{{/* homeward.seconds: a duration such as 45s, 2m, 1.5m or 1m30s in seconds. */}}
{{- define "homeward.seconds" -}}
{{- $s := 0.0 -}}
{{- $units := dict "h" 3600.0 "m" 60.0 "s" 1.0 "ms" 0.001 "us" 0.000001 "µs" 0.000001 "ns" 0.000000001 -}}
{{- range (regexFindAll "[0-9.]+(h|ms|m|us|µs|ns|s)" . -1) }}
{{- $s = addf $s (mulf (float64 (regexFind "[0-9.]+" .)) (get $units (regexFind "[a-zµ]+" .))) -}}
{{- end -}}
{{- $s -}}
{{- end }}

{{/* homeward.grace: the seconds from the decision to stop a node to the end of its drain. */}}
{{- define "homeward.grace" -}}
{{- add .Values.preStopSeconds (ceil (include "homeward.seconds" .Values.drain)) -}}
{{- end }}

{{- define "homeward.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "homeward.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}
