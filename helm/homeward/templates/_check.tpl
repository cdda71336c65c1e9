{{/*
homeward.check refuses values with which nodes would not start, or could not charge. It
prints nothing.
*/}}
{{- define "homeward.check" -}}
{{- $known := fromYaml (.Files.Get "files/settings.yaml") -}}
{{- include "homeward.check.env" (dict "root" . "known" $known) -}}
{{- include "homeward.check.secrets" (dict "at" "" "value" (omit .Values "global") "known" $known) -}}
{{- range (list "node" "api" "rpc" "tls" "gossip" "metrics" "drain") }}
{{- if hasKey $.Values.config . }}{{ fail (printf "config.%s is set by the chart; use its own values" .) }}{{ end }}
{{- end -}}
{{- include "homeward.check.peers" . -}}
{{- include "homeward.check.migration" . -}}
{{- if not (kindIs "map" (.Values.config.gateway | default dict)) }}{{ fail "config.gateway is a group of settings and no value; see docs/node.yaml" }}{{ end -}}
{{- if include "homeward.isGateway" . }}{{ include "homeward.check.gateway" (dict "root" . "known" $known) }}{{ else }}{{ include "homeward.check.providers" (dict "root" . "known" $known) }}{{ end -}}
{{- if not (or .Values.secrets.seal.name (eq (toString (get .Values.config "seal")) "false") (hasKey (.Values.secrets.extra | default dict) "HOMEWARD_SEAL_KEYS") (hasKey (.Values.env | default dict) "HOMEWARD_SEAL_KEYS_FILE")) }}{{ fail "secrets.seal.name: name the Secret with the sealing keys; config.seal: false would store secrets of endpoints and bodies of notices in clear text" }}{{ end -}}
{{- $has := dict "audit" (dict) "console" (dict) -}}
{{- range $group, $_ := $has }}{{ with index $.Values.config $group }}{{ if kindIs "map" . }}{{ $_ := set $has $group . }}{{ end }}{{ end }}{{ end -}}
{{- if $has.audit.bucket }}{{ include "homeward.check.needs" (dict "root" . "variable" "HOMEWARD_AUDIT_KEYS" "why" "config.audit.bucket is set, and its segments must be signed") }}{{ end -}}
{{- if and $has.console.listen (dig "oidc" "issuer" "" $has.console) }}{{ include "homeward.check.needs" (dict "root" . "variable" "HOMEWARD_OIDC_SECRET" "why" "config.console.oidc.issuer is set, and the console needs its secret") }}{{ end -}}
{{- end }}

{{/* homeward.check.env refuses variables that the chart sets itself or checks, and secrets. */}}
{{- define "homeward.check.env" -}}
{{- range $name, $_ := .root.Values.env -}}
{{- if regexMatch "^(HOMEWARD_((NODE|API|RPC|TLS|GOSSIP|METRICS)__|DRAIN$)|POD_(NAME|IP)$)" $name }}{{ fail (printf "env.%s is set by the chart; use its own values" $name) }}{{ end -}}
{{- if hasPrefix "HOMEWARD_GATEWAY__" $name }}{{ fail (printf "env.%s is a setting of the gateway; write it into config, where the chart checks it" $name) }}{{ end -}}
{{- if or (has $name (values $.known.secrets)) (regexMatch "(_KEYS?|_SECRET|_PASSWORD|_TOKEN|_DATABASE_URL)$" $name) }}{{ fail (printf "env.%s is a secret; put it into a Secret and name that in %s" $name (include "homeward.secretAt" $name)) }}{{ end -}}
{{- if and (regexMatch "^HOMEWARD_(PROVIDERS?__|DEFAULT_PROVIDER$)" $name) (not (hasSuffix "_FILE" $name)) }}{{ fail (printf "env.%s is a setting of the provider; write it into config, where the chart checks it" $name) }}{{ end -}}
{{- end -}}
{{- end }}

{{/* homeward.secretAt: the value that names the Secret of a variable. */}}
{{- define "homeward.secretAt" -}}
{{- get (dict "HOMEWARD_DATABASE_URL" "secrets.database" "HOMEWARD_GOSSIP_KEY" "secrets.gossip" "HOMEWARD_SEAL_KEYS" "secrets.seal") . | default (printf "secrets.extra.%s" .) -}}
{{- end }}

{{/* homeward.check.secrets refuses secrets in a value and in all values below it. */}}
{{- define "homeward.check.secrets" -}}
{{- $at := .at -}}
{{- if hasPrefix "config." $at -}}
{{- $setting := trimPrefix "config." $at -}}
{{- $variable := get .known.secrets $setting -}}
{{- $of := regexFind "^providers\\.[^.]+\\." $setting -}}
{{- with get .known.providerSecrets (trimPrefix $of $setting) }}{{ if $of }}{{ $variable = printf "HOMEWARD_PROVIDERS__%s%s" (splitList "." $of | rest | first | upper | replace "-" "_") . }}{{ end }}{{ end -}}
{{- with $variable }}{{ fail (printf "%s is a secret and must not be among the values: put it into a Secret, and name that in %s: {name: …, key: …}" $at (include "homeward.secretAt" .)) }}{{ end -}}
{{- end -}}
{{- if kindIs "map" .value -}}
{{- range $name, $value := .value }}{{ include "homeward.check.secrets" (dict "at" (ternary $name (printf "%s.%s" $at $name) (eq $at "")) "value" $value "known" $.known) }}{{ end -}}
{{- else if kindIs "slice" .value -}}
{{- range $i, $value := .value }}{{ include "homeward.check.secrets" (dict "at" (printf "%s[%d]" $at $i) "value" $value "known" $.known) }}{{ end -}}
{{- else if kindIs "string" .value -}}
{{- range $what, $pattern := .known.looks }}{{ if regexMatch $pattern $.value }}{{ fail (printf "%s holds %s, which must not be among the values: put it into a Secret, and name that in secrets" $at $what) }}{{ end }}{{ end -}}
{{- end -}}
{{- end }}

{{/* homeward.check.peers refuses a peer that is this region, or that the network policy would block. */}}
{{- define "homeward.check.peers" -}}
{{- if hasKey (.Values.peers | default dict) .Values.region }}{{ fail (printf "peers.%s is this release's own region: two regions cannot have one name" .Values.region) }}{{ end -}}
{{- range $name, $peer := .Values.peers -}}
{{- if and $.Values.networkPolicy.enabled (not $peer.cidrs) }}{{ fail (printf "peers.%s.cidrs: the network policy would block all nodes of this region; name the addresses of its nodes, as in [\"10.20.0.0/16\"], or set networkPolicy.enabled: false" $name) }}{{ end -}}
{{- end -}}
{{- end }}

{{/* homeward.check.migration refuses a list of regions that lacks one, or has one or a code twice. */}}
{{- define "homeward.check.migration" -}}
{{- if .Values.migration.enabled -}}
{{- $names := dict -}}
{{- $codes := dict -}}
{{- range $entry := .Values.migration.regions -}}
{{- $parts := splitList "=" $entry -}}
{{- $name := first $parts -}}
{{- if hasKey $names $name }}{{ fail (printf "migration.regions has %s twice" $name) }}{{ end -}}
{{- $_ := set $names $name true -}}
{{- if gt (len $parts) 1 -}}
{{- $code := last $parts | atoi | toString -}}
{{- with get $codes $code }}{{ fail (printf "migration.regions gives %s and %s one code, %s: keys have the code for ever, so each region has its own" . $name $code) }}{{ end -}}
{{- $_ := set $codes $code $name -}}
{{- end -}}
{{- end -}}
{{- if and $names .Values.region (not (hasKey $names .Values.region)) }}{{ fail (printf "migration.regions lacks %s, this release's region: name all regions of the deployment" .Values.region) }}{{ end -}}
{{- range $peer, $_ := .Values.peers -}}
{{- if and $names (not (hasKey $names $peer)) }}{{ fail (printf "migration.regions lacks %s, which is one of peers: name all regions of the deployment" $peer) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/*
homeward.providers: the providers of config, each with its place (at), the prefix of its
variables, and its settings.
*/}}
{{- define "homeward.providers" -}}
{{- $all := list -}}
{{- with .Values.config.provider }}{{ $all = append $all (dict "at" "config.provider" "variables" "HOMEWARD_PROVIDER_" "settings" .) }}{{ end -}}
{{- range $name, $p := .Values.config.providers }}{{ $all = append $all (dict "at" (printf "config.providers.%s" $name) "variables" (printf "HOMEWARD_PROVIDERS__%s__" ($name | upper | replace "-" "_")) "settings" $p) }}{{ end -}}
{{- toYaml $all -}}
{{- end }}

{{/* homeward.check.providers requires a provider, and what nodes need to call it. */}}
{{- define "homeward.check.providers" -}}
{{- $root := .root -}}
{{- $known := .known -}}
{{- $config := .root.Values.config -}}
{{- range (list "provider" "providers") }}{{ if not (kindIs "map" (get $config . | default dict)) }}{{ fail (printf "config.%s is a group of settings and no value; see docs/node.yaml" .) }}{{ end }}{{ end -}}
{{- if and $config.provider $config.providers }}{{ fail "config.provider and config.providers are both set; move the settings of provider into providers, under its name" }}{{ end -}}
{{- $all := fromYamlArray (include "homeward.providers" $root) -}}
{{- if not $all }}{{ fail "config.provider: name the provider that moves the money, as in config: {provider: {kind: stripe, name: stripe, timeout: 80s}} and drain: 90s; config.providers is for several. Without one, nodes would charge at a simulator in their own pod. Nodes that are a gateway have config.gateway.upstream instead" }}{{ end -}}
{{- $variables := list -}}
{{- range $p := $all -}}
{{- $s := $p.settings | default dict -}}
{{- if not (kindIs "map" $s) }}{{ fail (printf "%s is a group of settings and no value; see docs/node.yaml" $p.at) }}{{ end -}}
{{- $kind := $s.kind | default "httpjson" -}}
{{- if not (hasKey $known.kinds $kind) }}{{ fail (printf "%s.kind is none of %s" $p.at (keys $known.kinds | sortAlpha | join ", ")) }}{{ end -}}
{{- $must := index $known.kinds $kind -}}
{{- if and $must.url (not $s.base_url) }}{{ fail (printf "%s: set its kind, stripe or adyen, or for an httpjson provider its base_url; without, nodes would charge at a simulator in their own pod" $p.at) }}{{ end -}}
{{- if and (eq $p.at "config.provider") (not $s.name) }}{{ fail "config.provider.name: books and claims have it for ever; name it, as in stripe. A deployment that has charged without a name keeps simulator, which was its name" }}{{ end -}}
{{- $key := printf "%sKEY" $p.variables -}}
{{- if $must.key }}{{ include "homeward.check.needs" (dict "root" $root "variable" $key "why" (printf "%s is of kind %s, which cannot be called without a key" $p.at $kind)) }}{{ end -}}
{{- $timeout := toString ($s.timeout | default $known.timeout) -}}
{{- include "homeward.check.drain" (dict "root" $root "at" (printf "%s.timeout" $p.at) "timeout" $timeout) -}}
{{- $variables = append $variables $key -}}
{{- $variables = append $variables (printf "%sWEBHOOK_SECRET" $p.variables) -}}
{{- end -}}
{{- if and (gt (len $all) 1) (not $config.default_provider) }}{{ fail (printf "config.default_provider: there are several providers; set it to one of %s" (keys $config.providers | sortAlpha | join ", ")) }}{{ end -}}
{{- range $variable, $_ := $root.Values.secrets.extra -}}
{{- if and (hasPrefix "HOMEWARD_PROVIDER" $variable) (not (has $variable $variables)) }}{{ fail (printf "secrets.extra.%s belongs to no provider of config, which has %s" $variable (join ", " $variables)) }}{{ end -}}
{{- end -}}
{{- end }}

{{/* homeward.check.drain refuses a drain that is not longer than a call may take. */}}
{{- define "homeward.check.drain" -}}
{{- if ge (float64 (include "homeward.seconds" .timeout)) (float64 (include "homeward.seconds" .root.Values.drain)) }}{{ fail (printf "drain: %s is not longer than %s, %s: a node that stops would abort calls, and their outcome would be unknown; set drain to more" .root.Values.drain .at .timeout) }}{{ end -}}
{{- end }}

{{/* homeward.check.gateway refuses providers, and requires what nodes need to call an upstream. */}}
{{- define "homeward.check.gateway" -}}
{{- $root := .root -}}
{{- $known := .known -}}
{{- $config := .root.Values.config -}}
{{- range (list "provider" "providers" "default_provider") }}{{ if get $config . }}{{ fail (printf "config.%s is of the API of payments, and these nodes are a gateway; take it out, or config.gateway.upstream and upstreams" .) }}{{ end }}{{ end -}}
{{- range $variable, $_ := $root.Values.secrets.extra }}{{ if hasPrefix "HOMEWARD_PROVIDER" $variable }}{{ fail (printf "secrets.extra.%s is of a provider, and these nodes are a gateway, which calls none; take it out" $variable) }}{{ end }}{{ end -}}
{{- if eq (toString (get $config "seal")) "false" }}{{ fail "config.seal is false, and a gateway stores requests with their credentials; take it out" }}{{ end -}}
{{- if not (kindIs "map" ($config.gateway.tls | default dict)) }}{{ fail "config.gateway.tls is a group of settings and no value; see docs/GATEWAY.md" }}{{ end -}}
{{- if not (kindIs "slice" ($config.gateway.routes | default list)) }}{{ fail "config.gateway.routes is a list of groups of settings; see docs/GATEWAY.md" }}{{ end -}}
{{- $matched := list -}}
{{- range $i, $route := $config.gateway.routes -}}
{{- $at := printf "config.gateway.routes[%d]" $i -}}
{{- if not (kindIs "map" $route) }}{{ fail (printf "%s is a group of settings and no value; see docs/GATEWAY.md" $at) }}{{ end -}}
{{- $matched = append $matched $route.match -}}
{{- include "homeward.check.drain" (dict "root" $root "at" (printf "%s.timeout" $at) "timeout" (toString ($route.timeout | default $known.gatewayTimeout))) -}}
{{- if eq (toString $route.credentials) "service" }}{{ include "homeward.check.needs" (dict "root" $root "variable" "HOMEWARD_GATEWAY_CREDENTIALS" "why" (printf "%s recovers with the service's credentials" $at)) }}{{ end -}}
{{- end -}}
{{- range (list "POST /" "PATCH /") }}{{ if not (has . $matched) }}{{ include "homeward.check.drain" (dict "root" $root "at" (printf "config.gateway's timeout for %s" .) "timeout" $known.gatewayTimeout) }}{{ end }}{{ end -}}
{{- end }}

{{/* homeward.check.needs requires a Secret for a variable. */}}
{{- define "homeward.check.needs" -}}
{{- if not (or (hasKey (.root.Values.secrets.extra | default dict) .variable) (hasKey (.root.Values.env | default dict) (printf "%s_FILE" .variable))) }}{{ fail (printf "secrets.extra.%s: %s; put it into a Secret, and name that: {name: …, key: …}" .variable .why) }}{{ end -}}
{{- end }}
