#!/bin/bash
# An executor of Spark on Kubernetes, as the entrypoint of Spark's own images starts it: the driver gives each of these
# variables to the executor's pod. The pod's template names this file as its command.
set -euo pipefail
home=$(echo /opt/aggregator/lib/python3*/site-packages/pyspark)
options=()
for name in "${!SPARK_JAVA_OPT_@}"; do options+=("${!name}"); done
exec java "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
  -cp "${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}${SPARK_CONF_DIR:+$SPARK_CONF_DIR:}$home/jars/*" \
  org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
  --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
  --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
  --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
