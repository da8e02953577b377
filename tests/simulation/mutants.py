"""Every rule of the protocol, removed from the real code in turn. The simulation must find each removal."""

from tests.simulation.protocol import Mutant

SLOT = "aggregator.replicate.slot.slot"
EPOCH = "aggregator.replicate.epoch.opening"
LOG = "aggregator.kafka.readers.log"
LEDGER = "aggregator.state.ledger"
PLANNING = "aggregator.replicate.epoch.plan"
ADDITIONS = "aggregator.replicate.epoch.additions"
ADDED_FLOWS = "aggregator.replicate.flow.added_flows"
GAPS = "aggregator.replicate.flow.gaps"
CURSOR = "aggregator.replicate.flow.cursor"
FLOW = "aggregator.replicate.flow.flow"
READERS = "aggregator.replicate.slot.readers"
TOPIC_IDENTITY = "aggregator.replicate.slot.topic_identity"
GATE = "aggregator.replicate.slot.partition_guard"
SETTLEMENT = "aggregator.replicate.leadership.settlement"
LEDGER_SETTLEMENT = "aggregator.replicate.leadership.ledger_settlement"
RANGES = "aggregator.lake.cycle.ranges"
STAGING = "aggregator.lake.storage.staging"
COMMIT = "aggregator.lake.cycle.commit"
DELTA = "aggregator.lake.tables.delta"
ICEBERG = "aggregator.lake.tables.iceberg"
ICEBERG_HANDLE = "aggregator.lake.tables.iceberg_handle"
LAKE = "aggregator.lake.driver"

DAMAGED = "damaged batches, cut logs"
MEANWHILE = "logs cut while that is looked for"
MUTANTS = [
    Mutant(
        "A: the ledger record outside the transaction",
        [
            (
                SLOT,
                """                self._write_entry(flow)
            self._commit()
            for flow in moved:
""",
                """                pass
            self._commit()
            self._writer.begin()
            for flow in moved:
                self._write_entry(flow)
            self._commit()
            for flow in moved:
""",
            )
        ],
    ),
    Mutant(
        "B: fencing before publishing",
        [
            (EPOCH, "    central.publish(epoch, ", "    central.fence(range(epoch.ids))\n    central.publish(epoch, "),
            (EPOCH, "    central.fence(range(epoch.ids))\n    internal", "    internal"),
        ],
        situation="restarts",
        seed=253,
    ),
    Mutant(
        "B: reading before fencing",
        [
            (
                EPOCH,
                "    ledger = central.read_ledger()\n",
                "",
            ),
            (
                EPOCH,
                "    central.fence(range(epoch.ids))\n",
                "    ledger = central.read_ledger()\n    central.fence(range(epoch.ids))\n",
            )
        ],
    ),
    Mutant("B: fencing only one's own number of ids", [(EPOCH, "range(epoch.ids)", "range(slots)")]),
    Mutant(
        "B: the number of ids not carried",
        [(EPOCH, "max(used, slots, len(ledger_partitions)), driver", "slots, driver")],
    ),
    Mutant(
        "B: an epoch below one in the ledger",
        [(EPOCH, "while (newest := _newest(opened.ledger)) >= opened.epoch.epoch", "while (newest := -1) >= 0")],
        situation="control forgotten",
    ),
    Mutant(
        "B: ids that the control topic has forgotten",
        [(EPOCH, "max(used, slots, len(ledger_partitions))", "max(used, slots)")],
        situation="control forgotten",
    ),
    Mutant(
        "C: a slot whose epoch the control topic has forgotten",
        [(SLOT, "not seen.is_epoch(self._plan.epoch, self._plan.driver)", "seen.epoch_number > self._plan.epoch")],
        situation="control forgotten",
    ),
    Mutant("B: not every ledger partition read", switches=frozenset({"ledger of own slots only"})),
    Mutant(
        "B: init_transactions at every epoch",
        switches=frozenset({"init at every epoch"}),
        situation="two drivers, no faults",
    ),
    Mutant(
        "C: control not read after init_transactions",
        [(SLOT, "if not seen.is_epoch(self._plan.epoch, self._plan.driver):", "if False:")],
        situation="many drivers",
        seed=400,
    ),
    Mutant(
        "C: a ledger record of another epoch counts",
        [
            (
                SLOT,
                "found is not None and found.epoch == self._plan.epoch",
                "found is not None",
            )
        ],
    ),
    Mutant(
        "C: the own ledger partition not read",
        [(SLOT, "flows = self._flows(self._ports.read_ledger())", "flows = self._flows({})")],
    ),
    Mutant(
        "to its end: reading to the last stable offset",
        [(LOG, "targets = log_end()", "targets = stable_end()")],
        situation="latest, recreated",
    ),
    Mutant(
        "D: the larger offset wins instead of the higher epoch",
        [(LEDGER, "entry.epoch >= known.epoch", "entry.next_offset >= known.next_offset")],
        situation="recreation",
    ),
    Mutant(
        "D: one ledger partition for all slots, read to the last stable offset",
        switches=frozenset({"shared ledger partition"}),
        situation="restarts",
        seed=1209,
    ),
    Mutant(
        "D: a first position not persisted",
        [(SLOT, "self._unwritten = [flow for flow in flows.values() if flow.plan.is_new_position and not flow.persisted]", "self._unwritten = []")],  # noqa: E501 - one passage
        situation="latest, cut, widened",
    ),
    Mutant(
        "added: flows that were given in another epoch count",
        [(ADDED_FLOWS, "if said is None or said.epoch != epoch:", "if said is None:")],
        situation="topics appear",
    ),
    Mutant(
        "added: a slot that begins again does not know what it was given",
        [(SLOT, "                self._plan = with_added_flows(self._plan, seen)\n", "")],
        situation="topics appear",
    ),
    Mutant(
        "added: a topic that the ledger knows",
        [(ADDITIONS, "(edge, topic.name) in running.topics", "False")],
        situation="topics appear, recreated",
    ),
    Mutant(
        "added: a flow in two slots",
        [(ADDITIONS, "        more.setdefault(slot, []).append(", "        for slot in range(running.slots):\n            more.setdefault(slot, []).append(")],  # noqa: E501 - one passage
        situation="topics appear",
    ),
    Mutant(
        "added: a first position decides what is undecided in the ledger",
        [(SLOT, "and not self._unwritten) or self._guard.await_open([]):", "and not self._unwritten):")],
        situation="topics appear beside others, markers dropped",
        seed=337,
    ),
    Mutant(
        "added: a first position not persisted",
        [(SLOT, "        self._persist_first_positions()\n        for flow in fresh:\n", "        self._unwritten = []\n        for flow in fresh:\n")],  # noqa: E501 - one passage
        situation="topics appear, latest",
    ),
    Mutant(
        "F: an unknown outcome taken as abortable",
        [
            (
                SLOT,
                "except TransactionAborted as error:\n                if self._abort",
                "except (TransactionAborted, OutcomeUnknown) as error:\n                if self._abort",
            )
        ],
        situation="answers lost",
    ),
    Mutant(
        "F: no rewind after an abort",
        [(SLOT, "        for flow in self._flows.values():\n            flow.rewind()\n", "")],
    ),
    Mutant(
        "gaps: an acceptance lets pass what was lost after it",
        [
            (
                PLANNING,
                "moved = with_decisions(found, decisions)",
                "moved = structs.replace(found, gap=None, next_offset=topic.log_start_offsets[source.partition]) if found.gap and decisions else found",  # noqa: E501 - one passage
            )
        ],
        situation="truncation",
    ),
    Mutant(
        "F: a gap outlives the transaction that found it",
        [
            (
                FLOW,
                "        self.cursor = self.committed\n\n    def commit",
                "        gap = self.cursor.entry.gap\n        self.cursor = self.committed.with_gap(gap) if gap else self.committed\n\n    def commit",  # noqa: E501 - one passage
            )
        ],
        situation="aborts at the edge's faults",
        seed=305,
    ),
    Mutant(
        "F: what waits keeps its position over an abort",
        [
            (
                FLOW,
                "        self.cursor = self.committed\n\n    def commit",
                "        self.cursor = self.cursor if self.cursor.waiting else self.committed\n\n    def commit",
            )
        ],
        situation="everything at the edge",
    ),
    Mutant(
        "leader epoch: forgotten where a flow that waited is read on",
        [
            (
                READERS,
                ".incremental_assign((source.topic, source.partition), flow.cursor.start)",
                ".incremental_assign((source.topic, source.partition), StartPosition(flow.cursor.start.offset))",
            ),
            (READERS, "epoch > known and not resumed", "epoch > known"),
        ],
        situation="everything at the edge",
    ),
    Mutant(
        "leader epoch: only the client compares it where a partition is read again",
        [(READERS, "epoch > known and not resumed", "epoch > known")],
        situation="everything at the edge",
    ),
    Mutant(
        "leader epoch: only the client compares it behind an abort",
        [(READERS, "self._resumed |= self._flows.keys()", "pass")],
        situation="gaps are skipped",
        seed=406,
    ),
    Mutant(
        "leader epoch: only the client compares it behind an abort, of what waits",
        [(READERS, "|= self._flows.keys()", "|= {at for at, flow in self._flows.items() if flow.is_readable}")],
        situation="logs cut while flows wait",
    ),
    Mutant(
        "leader epoch: forgotten by every assignment",
        [(CURSOR, "next_offset, self.entry.leader_epoch)", "next_offset)")],
        situation="cut logs",
    ),
    Mutant(
        "leader epoch: forgotten with an accepted gap",
        [(GAPS, "gap=None, unread=unread)", "gap=None, unread=unread, leader_epoch=None)")],
        situation="cut logs",
    ),
    Mutant(
        "F: a refusal of begin or abort ends the slot",
        [(SLOT, "except (OutcomeUnknown, TransactionAborted, Unreachable) as error", "except (OutcomeUnknown, Unreachable) as error")],  # noqa: E501 - one passage
        situation="refusals",
    ),
    Mutant(
        "gaps: a topic that is created again forgets an open cut of its log",
        [(GAPS, "return min(entry.next_offset, entry.gap.start) if entry.gap is not None and open_end else entry.next_offset", "return entry.next_offset")],  # noqa: E501 - one passage
        situation="cut, recreated",
    ),
    Mutant(
        "gaps: a topic that was deleted, and is created again, forgets an open cut of its log",
        [(GAPS, "_OPEN_ENDED = frozenset({GapKind.TRUNCATED, GapKind.DELETED})", "_OPEN_ENDED = frozenset({GapKind.TRUNCATED})")],  # noqa: E501 - one passage
        situation="cut, hidden, recreated",
        seed=11,
    ),
    Mutant(
        "gaps: a topic that is back forgets an open cut of its log",
        [(GAPS, "if deletion.start < next_offset else None", "if False else None")],
        situation="cut, hidden, recreated",
        seed=506,
    ),
    Mutant(
        "damage: what lies before a damaged batch is not judged, nor the batch bounded",
        [(READERS, "if not self._learn_leader_epoch(flow) or not self._check_truncation(flow):", "if False:")],
        situation=DAMAGED,
    ),
    Mutant(
        "damage: an accepted gap forgets the leader epoch",
        [(GAPS, "gap=None, unread=unread)", "gap=None, unread=unread, leader_epoch=None)")],
        situation=DAMAGED,
    ),
    Mutant(
        "damage: a skipped gap forgets the leader epoch",
        [(CURSOR, "return passed.with_position(position_after(lost, position), entry.leader_epoch)", "return passed.with_position(position_after(lost, position), None)")],  # noqa: E501 - one passage
        situation="damaged batches are skipped",
    ),
    Mutant(
        "damage: the leader epoch of before bounds the batch",
        [
            (
                READERS,
                "        entry = flow.cursor.entry\n        lost = entry.gap if",
                "        entry = flow.cursor.entry\n        flow.cursor = structs.replace(flow.cursor, entry=structs.replace(entry, leader_epoch=flow.committed.entry.leader_epoch))\n        lost = entry.gap if",  # noqa: E501 - one passage
            ),
            (READERS, "from aggregator.backoff", "from msgspec import structs\n\nfrom aggregator.backoff"),
        ],
        situation=DAMAGED,
    ),
    Mutant(
        "damage: a decision lets pass another batch at its position",
        [
            (GAPS, "(same or decided.kind is not GapKind.DAMAGED)", "True"),
            (CURSOR, "gap = met if same else None", "gap = met"),
        ],
        situation=DAMAGED,
        seed=264,
    ),
    Mutant(
        "leader epoch: a search that read two logs counts",
        [(READERS, "cut.newer_epoch is not None and cut.newer_epoch > leader_epoch:", "False:")],
        situation=MEANWHILE,
        seed=27,
    ),
    Mutant(
        "damage: a decision lets pass a batch of the same extent that took the place of another",
        [(GAPS, "replace(found, since_ms=decided.since_ms) == decided", "(found.kind, found.end) == (decided.kind, decided.end)")],  # noqa: E501 - one passage
        situation="damaged batches in place of others",
        seed=12,
    ),
    Mutant(
        "leader epoch: none known at a first position",
        [(PLANNING, "structs.replace(first, leader_epoch=known, ", "structs.replace(first, ")],
        situation="latest, cut",
    ),
    Mutant(
        "leader epoch: a log that was found whole is asked about for ever",
        [(READERS, "        if whole is not None:\n            flow.cursor = flow.cursor.with_leader_epoch(*whole)\n", "")],  # noqa: E501 - one passage
        situation="cut logs",
    ),
    Mutant(
        "leader epoch: none known behind markers",
        [(READERS, "or entry.leader_epoch is not None or offset < entry", "or True or offset < entry")],
        situation="latest, cut, widened",
        seed=2439,
    ),
    Mutant(
        "a drain takes a position for reached that no edge was asked about",
        [(READERS, "or flow.is_done or confirmed)", "or True)")],
        situation="cut, recreated",
        seed=2129,
    ),
    Mutant(
        "a drain ends well on a cut that a client has told of, and nobody has judged",
        [(READERS, "and self._truncation.get(source) is not Truncation.SUSPECTED", "")],
        situation="cut while drained",
        seed=167,
    ),
    Mutant(
        "a drain ends well on what an edge had said before a poll that nobody vouched for",
        [(READERS, "self._confirmed.discard(flow.plan.source)", "pass")],
        situation="cut while drained",
        seed=30,
    ),
    Mutant(
        "start: whatever has a sibling counts as added later",
        [(PLANNING, "entry.first_partitions or 0 for entry", "0 for entry")],
        situation="latest",
    ),
    Mutant(
        "start: a partition added later begins where the rule says",
        [
            (
                PLANNING,
                "topic.initial_offsets if source.partition < first_partitions else topic.log_start_offsets",
                "topic.initial_offsets",
            )
        ],
        situation="by time, widened",
    ),
    Mutant(
        "start: all of a recreated topic begins where the rule says",
        [(PLANNING, "if entry.topic_id == topic.topic_id), default=0)", "if entry.topic_id == topic.topic_id), default=9)")],  # noqa: E501 - one passage
        situation="latest, recreated",
    ),
    Mutant(
        "incarnation: a recreated topic read on at the old offset",
        [(PLANNING, "topic_id=topic.topic_id, next_offset=0)", "topic_id=topic.topic_id)")],
        situation="recreation",
    ),
    Mutant(
        "topic ids: nobody is asked after a poll",
        [(READERS, "if ids is None:", "if ids:")],
        situation="recreation",
    ),
    Mutant(
        "topic ids: another broker is asked than the one that served",
        [(TOPIC_IDENTITY, "self._ids.ask(self._last, topics, broker)", "self._ids.ask(self._last, topics, -1)")],
        situation="recreation",
    ),
    Mutant(
        "topic ids: another topic's records are taken",
        [(TOPIC_IDENTITY, "if shown.topic_id == self._planned(tp):", "if shown.topic_id:")],
        situation="recreation",
    ),
    Mutant(
        "topic ids: what nobody vouched for is taken",
        [(TOPIC_IDENTITY, 'return f"broker {broker} does not tell the id of {topic}: {text_of(shown.code)}"', 'return ""')],  # noqa: E501 - one passage
        situation="recreation, silence",
    ),
    Mutant(
        "topic ids: the broker is asked before the poll",
        [
            (
                TOPIC_IDENTITY,
                """            polled = self._reader.poll(max_records, timeout_s)
            if not polled.served:
                return polled
            self._ask(polled)
""",
                """            self._ask(PollResult(served={1: {"orders"}}))
            self._polled = self._reader.poll(max_records, timeout_s)
""",
            )
        ],
        situation="recreation",
        seed=76,
    ),
]  # fmt: skip

DROPPED, SHARED = "markers dropped", "markers dropped, shared partitions"
SILENT = "markers dropped, partitions silent"
DEPOSED = "markers dropped, leaders deposed"
INTERNAL = "internal markers dropped"
NOTED = "many markers dropped"
LETTERS = "markers of letters dropped"
HIDDEN = "internal markers dropped, shared partitions"
MUTANTS += [
    Mutant(
        "B: written before the last stable offset is there, in an epoch",
        [
            (SLOT, "if closed := self._guard.await_open([flow.plan]):", 'if closed := "":'),
            (GATE, "_PATIENCE_S = 1.0", "_PATIENCE_S = 0.0"),
        ],
        situation=DROPPED,
    ),
    Mutant(
        "B: written without a look after a commit",
        [
            (
                SLOT,
                """        self._writer.commit()
        self._guard.transaction_ended(self._writer.touched)
""",
                "        self._writer.commit()\n",
            )
        ],
        situation=DROPPED,
    ),
    Mutant(
        "B: written without a look after an abort",
        [
            (
                SLOT,
                """        self._guard.transaction_ended(self._writer.touched)
        self._open_since""",
                "        self._open_since",
            )
        ],
        situation=DROPPED,
        seed=32,
    ),
    Mutant(
        "B: written without a look by a new producer",
        [(GATE, "                self._ends.setdefault(place, None)\n", "                pass\n")],
        situation=DROPPED,
    ),
    Mutant(
        "B: written to what does not answer",
        [
            (
                GATE,
                "for place, (stable, end) in found.items():",
                "for place, (stable, end) in {**{place: (0, 0) for place in partitions}, **found}.items():",
            )
        ],
        situation=SILENT,
    ),
    Mutant(
        "B: an end that lacks what was acknowledged counts",
        [(GATE, "return offset is None or offset < end", "return True")],
        situation=DEPOSED,
    ),
    Mutant(
        "B: a new producer does not ask anew who leads",
        switches=frozenset({"leaders of before, slots"}),
        situation=DEPOSED,
        seed=62,
    ),
    Mutant(
        "settling: a driver does not ask anew who leads",
        switches=frozenset({"leaders of before, drivers"}),
        situation=DEPOSED,
    ),
    Mutant(
        "B: a gap skipped where something is undecided",
        [(READERS, "if flow.may_skip(lost) and (closed := self._guard.await_open([flow.plan])):", 'if closed := "":')],
        situation="markers dropped, gaps skipped",
        seed=320,
    ),
    Mutant(
        "B: a first position passes over what is undecided",
        [(SLOT, "if flow.position > Position(0, 0)}", "if False}")],
        situation="markers dropped, recreated",
        seed=42,
    ),
    Mutant(
        "B: nothing settled when an epoch opens",
        [
            (EPOCH, "import TransactionOwner, abort_open_transactions, rewrite_missing", "import OpenTransactions, TransactionOwner, rewrite_missing"),  # noqa: E501 - one passage
            (
                EPOCH,
                """abort_open_transactions(
        central, epoch, {*internal, *asked}, notes=state.undecided, owner=owner, unguarded=unguarded
    )""",
                "OpenTransactions({}, {})",
            ),
        ],
        situation=DROPPED,
    ),
    Mutant(
        "settling: not noted before",
        [(SETTLEMENT, "central.publish(*(UndecidedRange(*at, *offsets) for at, offsets in fresh.items()))", "pass")],
        situation=NOTED,
    ),
    Mutant(
        "settling: what had been committed is not written again",
        [(SETTLEMENT, "missing.setdefault(copy, record)", "pass")],
        situation=DROPPED,
    ),
    Mutant(
        "settling: what had been aborted is written again",
        [(SETTLEMENT, "copy not in seen and judge.passed(copy):", "copy not in seen:")],
        situation=DROPPED,
    ),
    Mutant(
        "settling: what is visible is written again",
        [(SETTLEMENT, "copy is not None and copy not in seen and judge", "copy is not None and judge")],
        situation=SHARED,
    ),
    Mutant(
        "settling: written again before it is ended",
        [(SETTLEMENT, "if at in held:\n            continue", "if False:\n            continue")],
        situation=DROPPED,
        seed=110,
    ),
    Mutant(
        "settling: ended under some of the ids",
        [(SETTLEMENT, "range(epoch.ids), allowed", "range(1), allowed")],
        situation=DROPPED,
    ),
    Mutant(
        "settling: what was written to end it may stay undecided",
        [(SETTLEMENT, "{**undecided, **found}) | silent", "undecided)")],
        situation=NOTED,
    ),
    Mutant(
        "settling: what is silent after an abort counts as ended",
        [(SETTLEMENT, "{**undecided, **found}) | silent", "{**undecided, **found})")],
        situation="markers dropped, recreated",
        seed=43,
    ),
    Mutant(
        "settling the ledger: what had been committed is not written again",
        [(LEDGER_SETTLEMENT, "        return list(last.values())\n", "        return []\n")],
        situation=INTERNAL,
    ),
    Mutant(
        "settling the ledger: what had been aborted is written again",
        [(LEDGER_SETTLEMENT, "hint=HINT)\n    return []\n", "hint=HINT)\n    return list(last.values())\n")],
        situation=INTERNAL,
        seed=119,
    ),
    Mutant(
        "settling the ledger: an older record counts as of its transaction",
        [(LEDGER_SETTLEMENT, "newest is not None and newest >= begin:", "newest is not None:")],
        situation=INTERNAL,
        seed=119,
    ),
    Mutant(
        "settling the ledger: judged while something may hide what had been committed",
        [
            (
                EPOCH,
                """    found = abort_open_transactions(
        central, epoch, {*internal, *asked}, notes=state.undecided, owner=owner, unguarded=unguarded
    )
    settle_ledger(central, found, epoch, owner)
""",
                """    inside = {at: noted for at, noted in state.undecided.items() if at in internal}
    found = abort_open_transactions(central, epoch, internal, notes=inside, owner=owner)
    settle_ledger(central, found, epoch, owner)
    outside = {at: noted for at, noted in state.undecided.items() if at not in internal}
    found = abort_open_transactions(central, epoch, asked, notes=outside, owner=owner)
""",
            ),
            (LEDGER_SETTLEMENT, "    if evidence.hiding:\n", "    if False:\n"),
        ],
        situation=HIDDEN,
        seed=130,
    ),
    Mutant(
        "settling the ledger: dead letters are no evidence",
        [(LEDGER_SETTLEMENT, "if flow.backfill or entry.dead > (known.dead if known else 0):", "if False:")],
        situation=INTERNAL,
    ),
    Mutant(
        "settling the ledger: nobody keeps where slots wrote",
        [(EPOCH, '*sorted(set(targets) - before.targets, key=attrgetter("edge", "topic", "central", "by_key"))', "")],
        situation=INTERNAL,
    ),
    Mutant(
        "settling: a dead letter is nobody's",
        [(SETTLEMENT, "letter_copy(self.hub, record.key, record.value) if tp[0] in self.letters else record.copy", "record.copy")],  # noqa: E501 - one passage
        situation=LETTERS,
    ),
    Mutant(
        "settling: slots name nothing that they leave",
        [(SLOT, "self._flows, result, self._guard.undecided()", "self._flows, result, ()")],
        situation=DROPPED,
    ),
    Mutant(
        "settling: what another driver left undecided in the control topic is committed",
        switches=frozenset({"control left undecided"}),
        situation=INTERNAL,
        seed=81,
    ),
    Mutant(
        "B: written behind a decision that is undecided",
        [(GATE, "(plan.names.requests, 0), ", "")],
        situation="markers of decisions dropped",
        seed=39,
    ),
    Mutant(
        "settling the ledger: an epoch opens over a note that could not be settled",
        [
            (LEDGER_SETTLEMENT, "raise Unreachable(found.left[at], hint=HINT)", "continue"),
            (LEDGER_SETTLEMENT, "if at in found.noted)", "if at in found.noted and at not in found.left)"),
        ],
        situation=f"{INTERNAL}, partitions silent",
        seed=14,
    ),
    Mutant(
        "settling: a control topic that is silent counts as decided",
        switches=frozenset({"control silent"}),
        situation=f"{INTERNAL}, partitions silent",
        seed=1222,
    ),
    Mutant(
        "settling: what was written again is not looked for",
        [(SETTLEMENT, "max(offsets.end, end_now.start))", "offsets.end)")],
        situation=INTERNAL,
        seed=229,
    ),
    Mutant(
        "settling: a note that a refused transaction took back is not written again",
        switches=frozenset({"note lost with its tombstone"}),
        situation=INTERNAL,
        seed=2092,
    ),
    Mutant(
        "settling: ended though the note was not kept",
        [(SETTLEMENT, "if any(state.undecided.get(at) != noted[at] for at in samples):", "if False:")],
        situation=INTERNAL,
        seed=1363,
    ),
]  # fmt: skip

LAKE_MUTANTS = [
    Mutant(
        "G: a handle reopened before the commit",
        [
            (
                COMMIT,
                "version = handle.commit(settled.files, settled.positions, note=settled.note())",
                "version = self.tables.open(self.name).commit(settled.files, settled.positions, note=settled.note())",
            )
        ],
    ),
    Mutant(
        "G: retries left on",
        [(DELTA, "(app_transactions=moves, max_commit_retries=0)", "(app_transactions=moves)")],
        situation="delta",
    ),
    Mutant(
        "G: retries left on",
        [
            (ICEBERG, '    RETRIES: "0",  # else pyiceberg would rebase without notice, and rows would be in the table twice\n', ""),  # noqa: E501 - one passage
            (ICEBERG_HANDLE, 'if self.table.properties.get(RETRIES) != "0":', "if False:"),
        ],
        situation="iceberg",
    ),
    Mutant(
        "G: positions outside the commit",
        [
            (DELTA, "CommitProperties(app_transactions=moves, max_commit_retries=0)", "_ONCE"),
            (
                DELTA,
                "        return self.version + 1\n",
                """        self.table.create_write_transaction(
            [], "append", self.table.schema(), commit_properties=CommitProperties(app_transactions=moves)
        )
        return self.version + 1
""",
            ),
        ],
        situation="delta",
    ),
    Mutant(
        "G: positions outside the commit",
        [
            (
                ICEBERG_HANDLE,
                """                transaction = self._changed(paths, gone, moves, marked)
""",
                """                transaction = self._changed(paths, gone, {self._mark: mark}, marked)
""",
            ),
            (
                ICEBERG_HANDLE,
                """            return version
        return self.version
""",
                """            return version
        self.table.transaction().set_properties(moves).commit_transaction()
        return self.version
""",
            ),
        ],
        situation="iceberg",
    ),
    Mutant(
        "G: what another writer overtook is committed",
        [(RANGES, "if all(reached.get(partition, start) == start for partition, start in starts):", "if starts:")],
    ),
    Mutant(
        "G: a file that a commit was sent with removed",
        [(STAGING, "        if (folder.root, path) not in _SENT:\n", "        if True:\n")],
    ),
    Mutant(
        "G: a refused commit taken as not applied, its files removed",
        [
            (DELTA, "if not self._took_effect(attempt):", "if True:"),
            (STAGING, "        if (folder.root, path) not in _SENT:\n", "        if True:\n"),
        ],
        situation="delta",
    ),
    Mutant(
        "G: a refused commit taken as not applied, its files removed",
        [
            (ICEBERG_HANDLE, "            version = self._version_of(mark)\n", "            version = None\n"),
            (STAGING, "        if (folder.root, path) not in _SENT:\n", "        if True:\n"),
        ],
        situation="iceberg",
    ),
    Mutant(
        "G: a refused commit not looked for",
        [(DELTA, "if not self._took_effect(attempt):", "if True:")],
        situation="delta",
    ),
    Mutant(
        "G: a refused commit not looked for",
        [(ICEBERG_HANDLE, "            version = self._version_of(mark)\n", "            version = None\n")],
        situation="iceberg",
    ),
    Mutant(
        "G: a position is where the reading was planned to end, not where it ended",
        [(RANGES, "{one.span.partition: one.next_offset for one", "{one.span.partition: one.span.offsets.end for one")],
    ),
]  # fmt: skip
