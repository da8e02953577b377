{{- define "aggregator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "aggregator.fullname" -}}
{{- $name := include "aggregator.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "aggregator.selector" -}}
app.kubernetes.io/name: {{ include "aggregator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: hub
{{- end }}

{{- define "aggregator.labels" -}}
{{ include "aggregator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "aggregator.executorLabels" -}}
app.kubernetes.io/name: {{ include "aggregator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: executor
{{- end }}

{{- define "aggregator.account" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "aggregator.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "aggregator.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{- /* One pod at a time: the volume of a lake is on one node. */}}
{{- define "aggregator.alone" -}}
{{- if and .Values.persistence.enabled (ne .Values.persistence.accessMode "ReadWriteMany") }}yes{{ end }}
{{- end }}

{{- /* What cannot work, each with what would. */}}
{{- define "aggregator.check" -}}
{{- if not .Values.config }}
{{- fail "config is empty: give the hub's configuration, as --set-file config=hub.yaml" }}
{{- end }}
{{- if and (include "aggregator.alone" .) (gt (int .Values.replicas) 1) }}
{{- fail (printf "persistence.accessMode %s lets one node mount the lake, and a standby on another node could not start: set replicas to 1, use ReadWriteMany, or keep the lake in an object store" .Values.persistence.accessMode) }}
{{- end }}
{{- if and .Values.spark.enabled (include "aggregator.alone" .) }}
{{- fail "spark.enabled: executors on other nodes do not see the lake's volume: use ReadWriteMany, or keep the lake in an object store" }}
{{- end }}
{{- if and .Values.serviceMonitor.enabled (not .Values.metrics.enabled) }}
{{- fail "serviceMonitor.enabled needs metrics.enabled" }}
{{- end }}
{{- end }}

{{- /* A secret in the configuration would be in a ConfigMap, and in Helm's own record of the release. */}}
{{- define "aggregator.refuseSecrets" -}}
{{- $text := toYaml . }}
{{- $how := "is to be file:/run/secrets/aggregator/FOLDER/KEY, with FOLDER in `secrets`: this chart gives secrets to the hub as files only" }}
{{- if regexMatch "(?m)[\\s\"']env:[A-Za-z_]" $text }}
{{- fail (printf "config has a reference env:NAME, which %s" $how) }}
{{- end }}
{{- range regexFindAll "(?im)^[\\s-]*[\"']?[\\w.-]*(passw[a-z]*|passphrase|secret|user\\.info|jaas|private.?key|access[._-]?key|api[._-]?key|token)[\"']?: +\\S.*$" $text -1 }}
{{- if not (contains "file:" .) }}{{ fail (printf "config: %s %s" (regexFind "[\\w.-]+" .) $how) }}{{ end }}
{{- end }}
{{- range $name, $key := .keys }}
{{- $versions := dict "1" $key }}
{{- if kindIs "map" $key }}{{ $versions = $key.versions | default dict }}{{ end }}
{{- range $versions }}
{{- if not (hasPrefix "file:" (toString .)) }}{{ fail (printf "config: keys.%s %s" $name $how) }}{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* hub.yaml: what was given, and what the chart itself decides. */}}
{{- define "aggregator.hub" -}}
{{- $config := dict }}
{{- if kindIs "string" .Values.config }}
{{- $config = fromYaml .Values.config }}
{{- if hasKey $config "Error" }}{{ fail (printf "config is no YAML: %s" $config.Error) }}{{ end }}
{{- else }}
{{- $config = deepCopy .Values.config }}
{{- end }}
{{- include "aggregator.refuseSecrets" $config }}
{{- $names := list (include "aggregator.fullname" .) (printf "%s.%s" (include "aggregator.fullname" .) .Release.Namespace) (printf "%s.%s.svc" (include "aggregator.fullname" .) .Release.Namespace) }}
{{- $own := dict }}
{{- with .Values.metrics }}{{ if .enabled }}
{{- $hosts := concat $names ((get $config "metrics" | default dict).hosts | default list) | uniq }}
{{- $_ := set $own "metrics" (dict "listen" (printf "0.0.0.0:%d" (int .port)) "token" (printf "file:/run/secrets/aggregator/metrics-token/%s" .tokenKey) "hosts" $hosts "partitions" .partitions) }}
{{- end }}{{ end }}
{{- with .Values.page }}{{ if .enabled }}
{{- $hosts := concat $names .hosts ((get $config "ui" | default dict).hosts | default list) | uniq }}
{{- $_ := set $own "ui" (dict "listen" (printf "0.0.0.0:%d" (int .port)) "token" (printf "file:/run/secrets/aggregator/page-token/%s" .tokenKey) "hosts" $hosts) }}
{{- end }}{{ end }}
{{- with .Values.policyWatch }}
{{- $_ := set $own "policy_watch" . }}
{{- end }}
{{- if .Values.spark.enabled }}
{{- $conf := (get $config "spark" | default dict).conf | default dict }}
{{- $_ := set $own "spark" (dict "master" "k8s://https://kubernetes.default.svc" "conf" (mergeOverwrite (include "aggregator.sparkConf" . | fromYaml) $conf)) }}
{{- end }}
{{- if and (kindIs "string" .Values.config) (not $own) }}
{{- .Values.config }}
{{- else }}
{{- toYaml (mergeOverwrite $config $own) }}
{{- end }}
{{- end }}

{{- /* A hub in a pod is Spark's driver, and its executors reach it by the pod's own address: no Service is between them.
What Spark would delete besides its pods it does not make here, and so needs no rights on. */}}
{{- define "aggregator.sparkConf" -}}
spark.driver.host: "${POD_IP}"
spark.driver.bindAddress: "0.0.0.0"
spark.driver.port: {{ .Values.spark.driverPort | quote }}
spark.driver.blockManager.port: {{ .Values.spark.blockManagerPort | quote }}
spark.executor.instances: {{ .Values.spark.executors | quote }}
spark.executor.cores: {{ .Values.spark.cores | quote }}
spark.executor.memory: {{ .Values.spark.memory | quote }}
spark.executorEnv.LD_PRELOAD: libtcmalloc_minimal.so.4
spark.kubernetes.namespace: {{ .Release.Namespace | quote }}
spark.kubernetes.driver.pod.name: "${POD_NAME}"
spark.kubernetes.container.image: {{ include "aggregator.image" . | quote }}
spark.kubernetes.container.image.pullPolicy: {{ .Values.image.pullPolicy | quote }}
spark.kubernetes.driver.ownPersistentVolumeClaim: "false"
spark.kubernetes.driver.reusePersistentVolumeClaim: "false"
spark.kubernetes.driver.service.deleteOnTermination: "false"
spark.kubernetes.executor.disableConfigMap: "true"
spark.kubernetes.executor.podTemplateFile: /etc/aggregator/spark/executor.yaml
spark.kubernetes.executor.podTemplateContainerName: executor
{{- end }}

{{- /* Every file of /etc/aggregator, by its path there; a ConfigMap's own names have no slash. */}}
{{- define "aggregator.files" -}}
hub.yaml: {{ include "aggregator.hub" . | toJson }}
{{- range $path, $text := .Values.files }}
{{ $path | quote }}: {{ $text | toJson }}
{{- end }}
{{- if .Values.spark.enabled }}
spark/executor.yaml: {{ include "aggregator.executor" . | toJson }}
{{- end }}
{{- end }}

{{- define "aggregator.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "aggregator.containerSecurity" -}}
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
{{- end }}

{{- /* Existing Secrets, by the name of their folder. */}}
{{- define "aggregator.secrets" -}}
{{- $all := deepCopy .Values.secrets }}
{{- if .Values.metrics.enabled }}{{ $_ := set $all "metrics-token" .Values.metrics.tokenSecret }}{{ end }}
{{- if .Values.page.enabled }}{{ $_ := set $all "page-token" .Values.page.tokenSecret }}{{ end }}
{{- toYaml $all }}
{{- end }}

{{- /* The hub refuses a key that others may read: the mode lets only its own group. 288 is 0440, for readers of any YAML. */}}
{{- define "aggregator.secretVolumes" -}}
{{- range $folder, $secret := include "aggregator.secrets" . | fromYaml }}
- name: secret-{{ $folder }}
  secret: {secretName: {{ $secret | quote }}, defaultMode: 288}
{{- end }}
{{- if .Values.persistence.enabled }}
- name: lake
  persistentVolumeClaim: {claimName: {{ default (printf "%s-lake" (include "aggregator.fullname" .)) .Values.persistence.existingClaim | quote }}}
{{- end }}
{{- end }}

{{- define "aggregator.secretMounts" -}}
{{- range $folder, $secret := include "aggregator.secrets" . | fromYaml }}
- {name: secret-{{ $folder }}, mountPath: /run/secrets/aggregator/{{ $folder }}, readOnly: true}
{{- end }}
{{- if .Values.persistence.enabled }}
- {name: lake, mountPath: /var/lib/aggregator/lake}
{{- end }}
{{- end }}

{{- /* What Spark makes the pods of executors from; it adds what it knows of each. */}}
{{- define "aggregator.executor" -}}
apiVersion: v1
kind: Pod
metadata:
  labels: {{- include "aggregator.executorLabels" . | nindent 4 }}
spec:
  automountServiceAccountToken: false
  serviceAccountName: {{ include "aggregator.account" . }}
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets: {{- range . }}
    - name: {{ . | quote }}
  {{- end }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  securityContext: {{- include "aggregator.podSecurity" . | nindent 4 }}
  containers:
    - name: executor
      image: {{ include "aggregator.image" . | quote }}
      command: [/usr/bin/tini, --, /usr/local/bin/spark-executor]
      securityContext: {{- include "aggregator.containerSecurity" . | nindent 8 }}
      {{- with include "aggregator.secretMounts" . }}
      volumeMounts: {{- . | nindent 8 }}
      {{- end }}
  {{- with include "aggregator.secretVolumes" . }}
  volumes: {{- . | nindent 4 }}
  {{- end }}
{{- end }}
