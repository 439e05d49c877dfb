{{- define "ballast.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride }}
{{- else if contains .Chart.Name .Release.Name -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{- /* What selects the pods of a part; without a part, of all. Takes [root, part]. */ -}}
{{- define "ballast.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ $root.Chart.Name }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
{{- with index . 1 }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{- /* The name of a part's pods, account, role and policy. Takes [root, part]. */ -}}
{{- define "ballast.partName" -}}
{{- $full := include "ballast.fullname" (index . 0) -}}
{{- $part := index . 1 -}}
{{- if eq $part "single" }}{{ $full }}{{ else }}{{ printf "%s-%s" $full $part }}{{ end -}}
{{- end -}}

{{- define "ballast.parts" -}}
{{- if eq .Values.mode "single" }}single{{ else }}gateway controller{{ end -}}
{{- end -}}

{{- /* The account of those who decide. */ -}}
{{- define "ballast.writer" -}}
{{- $part := ternary "single" "controller" (eq .Values.mode "single") -}}
{{- include "ballast.partName" (list . $part) -}}
{{- end -}}

{{- define "ballast.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest }}{{ $image.repository }}@{{ $image.digest }}{{ else }}{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}{{ end -}}
{{- end -}}

{{- /* The components that run on controllers: those that always do, and those that are switched on. */ -}}
{{- define "ballast.components" -}}
{{- $on := list -}}
{{- range (.Files.Get "files/components.yaml" | fromYaml).components -}}
{{- if or (ne .runs "leading") (index $.Values.controllers .name) -}}
{{- $on = append $on . -}}
{{- end -}}
{{- end -}}
{{- dict "components" $on | toYaml -}}
{{- end -}}

{{- /* Says what the values cannot mean, all of it at once. */ -}}
{{- define "ballast.check" -}}
{{- $wrong := list -}}
{{- $values := .Values -}}
{{- if eq $values.scope "namespace" -}}
{{- range (include "ballast.components" . | fromYaml).components -}}
{{- if eq .reach "cluster" -}}
{{- $wrong = append $wrong (printf "controllers.%s=true: it works in all namespaces and cannot be bound to one; set controllers.%s=false, or scope=cluster" .name .name) -}}
{{- end -}}
{{- end -}}
{{- if $values.crds.install -}}
{{- $wrong = append $wrong "crds.install=true: kinds belong to the cluster; set crds.install=false, and have an administrator run: ballast crds | kubectl apply --server-side -f -" -}}
{{- end -}}
{{- range $name := list "gitSecrets" "bufferSecrets" -}}
{{- range (index $values $name).namespaces -}}
{{- if ne . $.Release.Namespace -}}
{{- $wrong = append $wrong (printf "%s.namespaces: %s is not the namespace of the release" $name .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $wrong -}}
{{- fail (printf "\nscope=namespace has no rights outside of its namespace, but\n- %s" (join "\n- " $wrong)) -}}
{{- end -}}
{{- end -}}
{{- $nats := $values.store.nats -}}
{{- if and (eq $values.mode "split") (not $nats.secret) -}}
{{- range $key := list "caKey" "credentialsKey" "nkeyKey" "certKey" "privateKeyKey" "addressKey" -}}
{{- if index $nats $key -}}
{{- $wrong = append $wrong (printf "store.nats.%s is set without store.nats.secret: name the Secret that has it, or set it to \"\"" $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $nats.credentialsKey $nats.nkeyKey -}}
{{- $wrong = append $wrong "store.nats.credentialsKey and store.nats.nkeyKey are both set: NATS knows a user by one of them; set the other to \"\"" -}}
{{- end -}}
{{- if ne (empty $nats.certKey) (empty $nats.privateKeyKey) -}}
{{- $wrong = append $wrong "store.nats.certKey and store.nats.privateKeyKey belong together: set both or neither" -}}
{{- end -}}
{{- if and $values.operators.enabled (not $values.operators.tokenSecret) -}}
{{- $wrong = append $wrong "operators.enabled=true needs operators.tokenSecret: whoever reaches the port could read and wake all functions" -}}
{{- end -}}
{{- if and $values.serviceMonitor.enabled (not $values.operators.enabled) -}}
{{- $wrong = append $wrong "serviceMonitor.enabled=true needs operators.enabled=true: metrics are on the operators' port" -}}
{{- end -}}
{{- if $wrong -}}
{{- fail (printf "\n- %s" (join "\n- " $wrong)) -}}
{{- end -}}
{{- end -}}
