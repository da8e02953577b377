"""Every rule that closes something, removed from the real code in turn. The search must find each removal."""

from tests.mutation import Mutant

ALLOWLIST = "aggregator.privacy.json.allowlist"
COMPILE = "aggregator.privacy.plan.compile"
CURSOR = "aggregator.replicate.flow.cursor"
HEADERS = "aggregator.header_columns"
DELIVERY = "aggregator.replicate.slot.delivery"
DERIVED = "aggregator.privacy.plan.derived"
DISTINCT = "aggregator.privacy.batch.distinct"
GUARD = "tests.reference.guard"
LINEAGE = "aggregator.schema.former_fields"
HISTORY = "aggregator.schema.tag_history"
INHERITED = "aggregator.schema.inherited_tags"
KEYS = "aggregator.privacy.topic.keys"
MEANINGS = "aggregator.replicate.flow.schema_fingerprints"
OPERATOR = "aggregator.privacy.operators.{}"
PARAMETERS = "aggregator.privacy.operators.parameters"
POLICY = "aggregator.privacy.policy.file"
WHOLE = "aggregator.privacy.topic.plain_values"
PRECEDENCE = "aggregator.privacy.policy.precedence"
PROGRAM = "aggregator.privacy.kernel.program"
PROGRAMS = "aggregator.privacy.topic.programs"
RULES = "aggregator.privacy.policy.rules"
SHA256 = "aggregator.privacy.tokens.sha256"
SETTLE = "aggregator.privacy.plan.containers"
SUBJECTS = "aggregator.privacy.ids.subjects"
SUPPRESSION = "aggregator.privacy.topic.suppression"
TOKENS = "aggregator.privacy.tokens.tokens"
TOPIC = "aggregator.privacy.topic.topic"
UNIFIED = "aggregator.privacy.ids.header_schema_ids"


_TAGS = "tags = at.tags if node.tags <= at.tags else at.tags | node.tags"
# The records themselves.
_COPY = "ResultColumn([batch.data[batch.starts[n] : batch.ends[n]].tobytes() for n in {}])"


def _one(name, module, passage, replacement):
    return Mutant(name, [(module, passage, replacement)])


PRECEDENCES = [
    _one("a path goes before tag and default", PRECEDENCE, "        if valid:\n", "        if False:\n"),
    _one("a tag goes before the default", PRECEDENCE, "        elif of_tags is not None:\n", "        elif False:\n"),
    _one("the default closes", PRECEDENCE, 'self._default(today), "default"', 'Keep(), "default"'),
    _one(
        "paths: the most restrictive wins",
        PRECEDENCE,
        "winner = most_restrictive([item.rule for item in valid])",
        "winner = valid[-1].rule",
    ),
    _one(
        "tags: the most restrictive wins",
        PRECEDENCE,
        "of_tags = most_restrictive(list(by_tag.values()))",
        "of_tags = next(iter(by_tag.values()))",
    ),
    _one(
        "most restrictive is the most, not the least",
        RULES,
        "by_restriction[max(by_restriction)]",
        "by_restriction[min(by_restriction)]",
    ),
    _one(
        "patterns: the most restrictive default",
        PRECEDENCE,
        "else rule for rule in self.defaults]",
        "else rule for rule in self.defaults[-1:]]",
    ),
    _one(
        "patterns: a key that one of them does not name",
        POLICY,
        "item.key or Drop() for item in found",
        "item.key for item in found if item.key",
    ),
    _one("patterns: headers that all of them name", POLICY, "set.intersection(*", "set().union(*"),
    _one(
        "an undeclared tag closes",
        PRECEDENCE,
        "return self.closed if is_void_for_tag(rule, today) else rule",
        "return Keep() if tag not in self.tags else self.closed if is_void_for_tag(rule, today) else rule",
    ),
    _one(
        "a tag is kept only with a reason",
        PRECEDENCE,
        "if may_pass_unchanged(rule) or has_ended(rule, today):",
        "if has_ended(rule, today):",
    ),
    _one(
        "a wildcard takes no less than a tag",
        PRECEDENCE,
        "return not item.is_wild or privacy_class(rule) >= privacy_class(of_tags)",
        "return True",
    ),
    _one(
        "what ends below an open wildcard closes", PRECEDENCE, "if has_ended(item.rule, today) or _takes", "if _takes"
    ),
    _one("a wildcard closes as the tag does", PRECEDENCE, "today) or _takes(item.rule))", "today))"),
    _one(
        "what ends below an open default closes",
        PRECEDENCE,
        "return self.closed if isinstance(default, Keep) else default",
        "return default",
    ),
    _one(
        "patterns: a key's rule of one of them that has ended",
        PRECEDENCE,
        "_of_all(policy.view(topic).keys)",
        "_of_all([most_restrictive(policy.view(topic).keys)])",
    ),
    _one(
        "patterns: a value's rule of one of them that has ended",
        PRECEDENCE,
        "*_of_all(view.values)",
        "*_of_all([most_restrictive(view.values)])",
    ),
    _one(
        "patterns: a default of one of them that has ended",
        PRECEDENCE,
        "self.closed if has_ended(rule, today) else rule for rule in self.defaults",
        "rule for rule in self.defaults",
    ),
    _one(
        "what has ended closes what a tag opens",
        PRECEDENCE,
        "if of_tags is None or may_pass_unchanged(of_tags) else",
        "if of_tags is None else",
    ),
    _one("truncate can leave a value whole", OPERATOR.format("truncate"), "rule.length > 0)", "False)"),
    _one(
        "a table can name itself",
        OPERATOR.format("lookup"),
        "if any(key == text for key, text in rule.table):",
        "if False:",
    ),
    _one(
        "a mask can show nearly all",
        OPERATOR.format("mask"),
        "clear_if(rule.keep_first + rule.keep_last > _SHOWN_GRAPHEMES)",
        "clear_if(False)",
    ),
    _one(
        "a mask can show who it is",
        OPERATOR.format("mask_email"),
        'clear_if("local" not in rule.parts)',
        "clear_if(False)",
    ),
    _one(
        "a mask can show the path",
        OPERATOR.format("mask_url"),
        "clear_if(not _PATH_PARTS.issubset(rule.parts))",
        "clear_if(False)",
    ),
]

EXPIRIES = [
    _one(
        "expiry of a path's keep on a tagged field",
        PARAMETERS,
        "self.expires is not None and today < self.expires",
        "self.expires is not None",
    ),
    _one(
        "expiry of a path's keep on any other field",
        PRECEDENCE,
        "return not has_ended(rule, today)",
        "return True",
    ),
    _one(
        "expiry of a tag's keep",
        PRECEDENCE,
        "return self.closed if is_void_for_tag(rule, today) else rule",
        "return rule",
    ),
    _one(
        "expiry of a tag's rule that takes enough",
        PRECEDENCE,
        "return has_ended(rule, today) or (may_pass",
        "return (may_pass",
    ),
    _one(
        "expiry of the key's keep",
        KEYS,
        "self._scope.decide_whole(today)",
        'AppliedRule(self._rule, "")',
    ),
    _one("expiry overnight: a new day compiles anew", PROGRAMS, "if today != self._day:", "if self._day is None:"),
]

WALKS = [
    _one("tags of a type are inherited", COMPILE, _TAGS, "tags = at.tags"),
    _one("tags of what lies above are inherited", COMPILE, _TAGS, "tags = node.tags"),
    _one("tags of a field", COMPILE, "tags=inside.tags | item.tags", "tags=inside.tags"),
    _one("a path covers what lies below", COMPILE, "rules=at.rules | (here & self.covering)", "rules=at.rules"),
    _one(
        "`*` opens one level",
        PRECEDENCE,
        "return not is_of_one_step or has_ended(self.rule, today)",
        "return True",
    ),
    _one(
        "`*` that has ended closes what lies below its level",
        PRECEDENCE,
        "return not is_of_one_step or has_ended(self.rule, today)",
        "return not is_of_one_step",
    ),
    _one(
        "map keys are leaves of their own",
        COMPILE,
        "return self.leaf(Leaf(Kind.STRING), at, path, of_map=True)",
        "return self.add(PlanNode(Kind.STRING, Action.KEEP, path, at.node))",
    ),
    _one("map keys take few operators", COMPILE, "(of_map and not operators.is_injective(rule, result))", "False"),
    _one(
        "an operator that does not take a type drops",
        COMPILE,
        "                rule = Drop()\n",
        "                rule = Keep()\n",
    ),
    _one(
        "recursion: a type is closed by where it lies",
        COMPILE,
        "self.above.get(at, ",
        "next((known for one, known in self.above.items() if one.node == at.node), ",
    ),
    _one(
        "an array's items",
        COMPILE,
        "return (self.step(inside._replace(node=node.children[0]), path, paths.ITEMS),)",
        "return (self.add(PlanNode(Kind.STRING, Action.KEEP, path, node.children[0])),)",
    ),
    _one(
        "what is touched inside is not kept as a whole",
        SETTLE,
        "return any(child in held or child not in live",
        "return any(False",
    ),
]

MACHINES = [
    _one(
        "the program leaves out what is dropped",
        PROGRAM,
        "            case Action.DROP:\n",
        "            case Action.DROP if False:\n",
    ),
    _one(
        "the program replaces what an operator changes",
        PROGRAM,
        "            case Action.APPLY:\n",
        "            case Action.APPLY if False:\n",
    ),
    _one(
        "the program takes the branch that the bytes name",
        PROGRAM,
        "table + 2 * branch] = self.here()",
        "table + 2 * branch] = self.branches[table] if branch else self.here()",
    ),
    _one(
        "the program checks text that travels on",
        PROGRAM,
        "node.kind is Kind.STRING and is_read(node, self.calls)",
        "False",
    ),
    _one(
        "guard: nesting",
        GUARD,
        "        def check(data: bytes, at: int, depth: int) -> int:\n"
        "            if depth >= MAXIMUM_DEPTH:\n                raise Malformed(Reason.TOO_DEEP)\n"
        "            branch, at = index(data, at)",
        "        def check(data: bytes, at: int, depth: int) -> int:\n"
        "            depth = 0\n"
        "            branch, at = index(data, at)",
    ),
    _one("guard: items that have no bytes", GUARD, "            self._left -= count\n", "            pass\n"),
    _one(
        "guard: bytes left over",
        GUARD,
        "if self._checks[self._root](body, 0, 0) != len(body):",
        "if self._checks[self._root](body, 0, 0) > len(body):",
    ),
    _one("guard: sizes of blocks", GUARD, "if end is not None and at != end:", "if False:"),
    _one("guard: numbers that are too long", GUARD, "if number >= limit:", "if False:"),
    _one("guard: text is UTF-8", GUARD, "        data[at:end].decode()\n", "        pass\n"),
    _one("guard: a branch that there is not", GUARD, "if not 0 <= index < count:", "if index >= count:"),
]

RECORDS = [
    _one("headers: an allow-list", HEADERS, "(name in names for name in self.names)", "(True for _ in self.names)"),
    _one("headers: all are allowed only where all are listed", HEADERS, "self.used <= frozenset(names)", "names"),
    _one(
        "headers: a schema that the header does not name",
        UNIFIED,
        "    except DeadLetterError:\n        return REFUSED",
        "    except DeadLetterError:\n        return content",
    ),
    _one("headers: a bare key that is Avro", UNIFIED, "is_avro=not foreign.isdisjoint(headers)", "is_avro=False"),
    _one(
        "a rejected record has no key and no value",
        TOPIC,
        "BytesColumn.of(column.contents).without(lost)",
        "BytesColumn.of(column.contents)",
    ),
    _one("a rejected record has no headers", TOPIC, "only(self._headers, lost)", "only(self._headers, ())"),
    _one(
        "keys: none without a rule",
        POLICY,
        "item.key or Drop() for item in found",
        "item.key or Keep() for item in found",
    ),
    _one("keys: tokens", KEYS, "if self._tokenizer is not None:", "if False:"),
    _one("keys: dropped", KEYS, "if isinstance(self._decision.rule, Drop):", "if False:"),
    _one(
        "keys: an Avro key is taken apart",
        KEYS,
        "return partial(self._by_wire, keys, batch, groups, self._programs.programs(groups))",
        "return partial(ResultColumn, list(keys))",
    ),
    _one(
        "keys: another format is rejected",
        KEYS,
        "parts.append(refused(rest[is_foreign], Rejection(Reason.BAD_KEY)))",
        "parts.append((rest[is_foreign], ResultColumn([keys.tolist()[place] for place in rest[is_foreign]])))",
    ),
    _one(
        "keys: one in another registry's frame is rejected",
        KEYS,
        'is_glue_framed(whole[place] or b"")',
        "place < 0",
    ),
    _one("keys: what is no text is rejected", KEYS, "        if len(made) < len(distinct):\n", "        if False:\n"),
    _one(
        "an unknown schema rejects",
        PROGRAMS,
        "            parts.append(refused(members, program))\n",
        f"            parts.append((members, {_COPY.format('members')}))\n",
    ),
    _one(
        "another first byte rejects",
        PROGRAMS,
        "parts = [refused(groups.unframed, Rejection(Reason.WRONG_MAGIC))]",
        f"parts = [(groups.unframed, {_COPY.format('groups.unframed')})]",
    ),
    _one(
        "an operator that fails loses the value",
        DISTINCT,
        "        except Exception:  # noqa: BLE001 - as above; the record is rejected\n            return None",
        "        except Exception:\n            return raw",
    ),
    _one(
        "a registry that is away decides nothing",
        PROGRAMS,
        "        except UnknownSchema as error:  # not remembered",
        "        except Exception as error:\n            error.reason = Reason.UNKNOWN_SCHEMA  # not remembered",
    ),
    _one(
        "central is asked before anything is delivered",
        PROGRAMS,
        "self._central_registry.register_compatible(",
        "(lambda *_: 1)(",
    ),
]

SCHEMAS = [
    _one("the schema: defaults of what is closed", DERIVED, "is_kept = fits or (", "is_kept = True or ("),
    _one(
        "the schema: symbols of what is redacted",
        OPERATOR.format("redact"),
        "return leaf._replace(symbols=(REDACTED_SYMBOL,)) if leaf.kind is Kind.ENUM else leaf",
        "return leaf",
    ),
    _one(
        "the schema: texts of the writer",
        COMPILE,
        "derived = derive(compiler.schema, nodes, root, calls, scope.policy)",
        "derived = __import__('json').dumps(repr(compiler.schema))",
    ),
]

HERITAGES = [
    _one(
        "tags of earlier versions",
        PROGRAMS,
        "schema = with_inherited_tags(text, origin.tags, earlier)",
        "schema = with_inherited_tags(text, origin.tags, [])",
    ),
    _one(
        "tags beside the schema",
        PROGRAMS,
        "schema = with_inherited_tags(text, origin.tags, earlier)",
        "schema = with_inherited_tags(text, (), earlier)",
    ),
    _one("aliases of fields", LINEAGE, "            for alias in item.aliases:\n", "            for alias in ():\n"),
    _one("aliases of types", LINEAGE, "        for alias in node.aliases:\n", "        for alias in ():\n"),
    _one("versions before the first tag", INHERITED, "for before in self.said:", "for before in ():"),
    _one(
        "a record that took another's place",
        LINEAGE,
        "            for one in left:\n",
        "            for one in ():\n",
    ),
    _one("tags of a type at all its places", LINEAGE, "            tags |= key.now.tags\n", ""),
    _one(
        "one name in two namespaces",
        LINEAGE,
        "if isinstance(key, NamedType) and newest[key] else ()",
        "if False else ()",
    ),
    _one(
        "a name of two versions ago",
        LINEAGE,
        "for known_as in key.called & new.keys()",
        "for known_as in {one.called} & new.keys()",
    ),
    _one("a name that comes back for another one", LINEAGE, "if node.name and history.is_back(node)", "if False"),
    _one("what was there no more", LINEAGE, "if self._is_left(*pair)], NO_TAGS", "if False], NO_TAGS"),
    _one(
        "what stood within it",
        LINEAGE,
        "return known, [*similar, self._left, *within]",
        "return known, [*similar, self._left]",
    ),
    _one("tags of the places within", LINEAGE, "            tags |= within\n", "            pass\n"),
    _one("of two places what is sure in both", HISTORY, "(one.newest & other.newest)", "(one.newest + other.newest)"),
    _one("two that stood beside each other", HISTORY, "known.most + one.most if met else", "1 if met else"),
    _one(
        "a single value and a list",
        LINEAGE,
        "newest = place.newest if place and not extra",
        "newest = place.newest if place",
    ),
    _one("keys that became items", LINEAGE, "*(one.key_tags for one in left)))", "*()))"),
    _one("a second look", LINEAGE, "while finding.look(root):", "while finding.look(root) and False:"),
    _one(
        "a type tagged at one place alone",
        LINEAGE,
        "number not in self._entered:",
        "self._defined[node.name] == number:",
    ),
    _one(
        "inherited tags of a field",
        COMPILE,
        "tags = inside.tags | self.inherited(inherited, way)",
        "tags = inside.tags",
    ),
    _one(
        "only the topic's subjects count",
        SUBJECTS,
        "        if found:\n",
        "        if True:\n            found = list(origin.versions)\n",
    ),
    _one(
        "an id means what it meant",
        MEANINGS,
        "if meant and meaning.fingerprint not in meant and not meaning.accepted:",
        "if False:",
    ),
]

OPERATORS = [
    Mutant(
        "tokens have a key",
        [
            (TOKENS, "macs.append(mac.finalize())", "macs.append(__import__('hashlib').sha256(message).digest())"),
            (
                SHA256,
                "    short = hashlib.sha256(key).digest() if len(key) > BLOCK_BYTES else key\n",
                "    short = b''\n",
            ),
        ],
    ),
    _one(
        "mask: what would show all shows nothing",
        OPERATOR.format("mask"),
        "    if hidden <= 0:\n",
        "    if False:\n",
    ),
    _one(
        "text that is not what the operator is for is redacted",
        OPERATOR.format("text"),
        "return [REDACTED if text is None else text for text in made]",
        "return [value if text is None else text for value, text in zip(values, made)]",
    ),
    _one(
        "no match: redacted",
        OPERATOR.format("regex_replace"),
        "return [REDACTED if text is None else text for text in made]",
        "return [value if text is None else text for value, text in zip(values, made)]",
    ),
]

CONDITIONS = [
    _one(
        "conditions: a record that meets one is left out",
        SUPPRESSION,
        "np.flatnonzero(answers == YES)",
        "np.flatnonzero(answers > YES)",
    ),
    _one(
        "conditions: what cannot be decided is refused",
        SUPPRESSION,
        "(answers == UNDECIDED) & ~is_unread",
        "(answers > YES) & ~is_unread",
    ),
]

JSON = [
    _one(
        "JSON: a container is open by what lies below alone",
        ALLOWLIST,
        "            rule = Drop()\n        elif",
        "            rule = Keep()\n        elif",
    ),
    _one(
        "JSON: an operator that does not take a type drops",
        ALLOWLIST,
        "                rule = Drop()\n",
        "                rule = Keep()\n",
    ),
    _one(
        "JSON: a rule that closes makes no words",
        ALLOWLIST,
        "self.matcher.ways_to(opening)",
        "self.matcher.ways_to(frozenset(range(len(scope.rules))))",
    ),
    _one(
        "JSON: what has ended leads into nothing",
        ALLOWLIST,
        "if not item.only_closes(today)",
        "if not isinstance(item.rule, Drop)",
    ),
    _one("JSON: names that the policy does not write are data", ALLOWLIST, "None if is_word else self._name()", "None"),
    _one("JSON: a name comes once", "aggregator.privacy.json.text", "if len(found) < len(pairs):", "if False:"),
]

PLAIN = [
    _one(
        "text: a pattern of the format without a rule closes",
        POLICY,
        "whole = tuple(item.value or Drop() for",
        "whole = tuple(item.value or Keep() for",
    ),
    _one(
        "text: what closes every place closes a text",
        PRECEDENCE,
        "if {*paths.steps(path)} == {paths.ANY_DEPTH}",
        "if False",
    ),
    _one(
        "text: what is no UTF-8 is rejected",
        WHOLE,
        "if self._value_format is not ValueFormat.TEXT or cells.are_text():",
        "if True:",
    ),
    _one(
        "text: what has no operator leaves nothing",
        WHOLE,
        'return _column(cells, empty, dict(rejected), "drop")',
        'return _column(cells, cells, dict(rejected), "drop")',
    ),
    _one(
        "text: an operator's answer takes the value's place",
        WHOLE,
        "yield from map(answers.get, part)",
        "yield from part",
    ),
    _one("text: a rule ends while the hub runs", WHOLE, "if today != self._day:", "if self._day is None:"),
]

LETTERS = [
    _one(
        "dead letters hold no value",
        DELIVERY,
        "            len(value),\n",
        "            value.hex(),\n",
    ),
    _one(
        "dead letters hold no key",
        DELIVERY,
        "key_bytes=len(key)",
        "key_bytes=repr(key)",
    ),
    _one(
        "dead letters: the hash has a key",
        DELIVERY,
        "hmac.new(self._plan.digest_key, value, hashlib.sha256)",
        "hashlib.sha256(value)",
    ),
    _one(
        "what is rejected is not delivered",
        DELIVERY,
        "stripped.headers, stamps, left_out",
        "stripped.headers, stamps",
    ),
    _one(
        "a result too large for central is a dead letter",
        DELIVERY,
        "sizes > limits.record_bytes",
        "sizes < 0",
    ),
    _one("what is dead is not counted as delivered", CURSOR, "len(chunk) - dead - suppressed", "len(chunk)"),
]

MUTANTS = [
    *PRECEDENCES,
    *EXPIRIES,
    *WALKS,
    *MACHINES,
    *RECORDS,
    *SCHEMAS,
    *HERITAGES,
    *OPERATORS,
    *CONDITIONS,
    *JSON,
    *PLAIN,
    *LETTERS,
]
