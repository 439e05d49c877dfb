{{- /* The flags of `ballast serve`. Takes [root, part]. */ -}}
{{- define "ballast.args" -}}
{{- $root := index . 0 -}}
{{- $part := index . 1 -}}
{{- $values := $root.Values -}}
{{- $nats := $values.store.nats -}}
{{- $args := list -}}
{{- if eq $part "single" -}}
{{- $args = append $args "--store=redb:/data/ballast.redb" -}}
{{- else -}}
{{- $args = append $args (printf "--roles=%s" $part) -}}
{{- if not $nats.addressKey }}{{ $args = append $args (printf "--store=%s" $nats.address) }}{{ end -}}
{{- $args = append $args (printf "--store-replicas=%v" $nats.replicas) -}}
{{- with $nats.name }}{{ $args = append $args (printf "--store-name=%s" .) }}{{ end -}}
{{- with $nats.caKey }}{{ $args = append $args (printf "--nats-ca-file=/nats/%s" .) }}{{ end -}}
{{- with $nats.credentialsKey }}{{ $args = append $args (printf "--nats-credentials-file=/nats/%s" .) }}{{ end -}}
{{- with $nats.nkeyKey }}{{ $args = append $args (printf "--nats-nkey-file=/nats/%s" .) }}{{ end -}}
{{- with $nats.certKey }}{{ $args = append $args (printf "--nats-cert-file=/nats/%s" .) }}{{ end -}}
{{- with $nats.privateKeyKey }}{{ $args = append $args (printf "--nats-key-file=/nats/%s" .) }}{{ end -}}
{{- end -}}
{{- if ne $part "controller" }}{{ $args = append $args "--linger=5" }}{{ end -}}
{{- if ne $part "gateway" -}}
{{- $on := list -}}
{{- range (include "ballast.components" $root | fromYaml).components -}}
{{- if eq .runs "leading" }}{{ $on = append $on .name }}{{ end -}}
{{- end -}}
{{- $args = append $args (printf "--controllers=%s" (join "," $on)) -}}
{{- if eq $values.scope "namespace" }}{{ $args = append $args (printf "--function-namespace=%s" $root.Release.Namespace) }}{{ end -}}
{{- if $values.controllers.pipelines }}{{ $args = append $args (printf "--vertex-image=%s" (include "ballast.image" $root)) }}{{ end -}}
{{- end -}}
{{- if $values.operators.enabled -}}
{{- $args = concat $args (list "--operator-addr=0.0.0.0:5001" (printf "--operator-token-file=/operators/%s" $values.operators.tokenKey)) -}}
{{- end -}}
{{- if ne $values.log.format "text" }}{{ $args = append $args (printf "--log-format=%s" $values.log.format) }}{{ end -}}
{{- concat $args (index $values $part).extraArgs | toYaml -}}
{{- end -}}
