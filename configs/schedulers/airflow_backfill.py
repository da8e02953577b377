"""A DAG for Apache Airflow 3: every night, what central lacks of the day before comes once, and a table is waited for.

Invariant: each task runs the command that a person types, and its exit code is the command's. A plan is made once for a
day and kept, so that a task can be tried as often as wanted: who tries again joins the same backfill, or hears that it
has finished. Needs `apache-airflow-providers-standard`, and `aggregator` on the worker's PATH.

    AGGREGATOR_CONFIG   the hub's configuration
    AGGREGATOR_PLANS    a folder that all workers share, for the plans
    AGGREGATOR_TOPIC    a regular expression on the edge topics
    AGGREGATOR_TABLE    the table that is waited for
"""

from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import CronDataIntervalTimetable, dag

DAY = '--from "{{ data_interval_start | ts }}" --to "{{ data_interval_end | ts }}"'
PLAN = '"$AGGREGATOR_PLANS/{{ dag.dag_id }}-{{ data_interval_start | ts_nodash }}.json"'


@dag(
    schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 10, "retry_delay": timedelta(minutes=1), "append_env": True},
)
def aggregator_backfill() -> None:
    """Plan, carry out, wait."""
    plan = BashOperator(
        task_id="plan",
        bash_command=f'test -s {PLAN} || {{ aggregator backfill plan --missing --topic "$AGGREGATOR_TOPIC" {DAY}'
        f" -o json > {PLAN}.new && mv {PLAN}.new {PLAN}; }}",
    )
    run = BashOperator(task_id="run", bash_command=f"aggregator backfill run --plan {PLAN} --yes")
    wait = BashOperator(
        task_id="wait",
        bash_command='aggregator lake wait "$AGGREGATOR_TABLE" --until "{{ data_interval_end | ts }}" --timeout 1h',
    )
    plan >> run >> wait


aggregator_backfill()
