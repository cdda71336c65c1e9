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

{{/* homeward.secrets: variable → {name, key} of every secret that is given. */}}
{{- define "homeward.secrets" -}}
{{- $s := .Values.secrets -}}
{{- $all := dict
  "HOMEWARD_DATABASE_URL" (dict "name" (required "secrets.database.name: name the Secret with the database's URL" $s.database.name) "key" $s.database.key)
  "HOMEWARD_GOSSIP_KEY" (dict "name" (required "secrets.gossip.name: name the Secret with the gossip keys" $s.gossip.name) "key" $s.gossip.key) -}}
{{- if $s.seal.name }}{{ $_ := set $all "HOMEWARD_SEAL_KEYS" (dict "name" $s.seal.name "key" $s.seal.key) }}{{ end -}}
{{- range $variable, $from := $s.extra }}{{ $_ := set $all $variable $from }}{{ end -}}
{{- toYaml $all -}}
{{- end }}

{{/* homeward.settings: the node's settings file. */}}
{{- define "homeward.settings" -}}
{{- range (list "node" "api" "rpc" "tls" "gossip" "metrics" "drain") }}
{{- if hasKey $.Values.config . }}{{ fail (printf "config.%s is set by the chart; use its own values" .) }}{{ end }}
{{- end -}}
{{- range $name, $_ := .Values.env -}}
{{- if regexMatch "^HOMEWARD_((NODE|API|RPC|TLS|GOSSIP|METRICS)__|DRAIN$)" $name }}{{ fail (printf "env.%s is set by the chart; use its own values" $name) }}{{ end -}}
{{- if regexMatch "(_KEYS?|_SECRET|_PASSWORD|_TOKEN|_DATABASE_URL)$" $name }}{{ fail (printf "env.%s is a secret; put it into a Secret and name that in secrets.extra" $name) }}{{ end -}}
{{- end -}}
{{- if hasKey .Values.peers .Values.region }}{{ fail (printf "peers.%s is this release's own region: two regions cannot have one name" .Values.region) }}{{ end -}}
{{- $seeds := list (printf "%s-gossip.%s.svc:%v" (include "homeward.name" .) .Release.Namespace .Values.ports.gossip) -}}
{{- range $_, $peer := .Values.peers }}{{ $seeds = concat $seeds $peer.gossip }}{{ end -}}
{{- $own := dict
  "node" (dict "region" (required "region: say which region this release is" .Values.region))
  "api" (dict "listen" (printf "0.0.0.0:%v" .Values.ports.api))
  "rpc" (dict "listen" (printf "0.0.0.0:%v" .Values.ports.rpc))
  "tls" (dict "cert" "/etc/homeward/tls/tls.crt" "key" "/etc/homeward/tls/tls.key" "ca" "/etc/homeward/tls/ca.crt" "trust_domain" .Values.tls.trustDomain)
  "gossip" (dict "listen" (printf "0.0.0.0:%v" .Values.ports.gossip) "seeds" $seeds)
  "metrics" (dict "listen" (printf "0.0.0.0:%v" .Values.ports.metrics))
  "drain" .Values.drain -}}
{{- toYaml (mustMerge $own (deepCopy .Values.config)) -}}
{{- end }}

{{/* homeward.seconds: a duration such as 45s, 2m or 1m30s in seconds. */}}
{{- define "homeward.seconds" -}}
{{- $s := 0 -}}
{{- range (regexFindAll "[0-9]+[hms]" . -1) }}
{{- $n := atoi (regexFind "[0-9]+" .) -}}
{{- $s = add $s (mul $n (ternary 3600 (ternary 60 1 (hasSuffix "m" .)) (hasSuffix "h" .))) -}}
{{- end -}}
{{- $s -}}
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
