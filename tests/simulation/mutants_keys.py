"""Ways of breaking webhook keys: whose they are, how they are made, and how they are rotated."""

from __future__ import annotations

from tests.simulation.mutant import Mutant, m

SIGNATURES = "tests/unit/test_webhook_signature.py"
KEYS = "tests/unit/test_webhook_keys.py"
STORE = "tests/contract/test_webhook_keys.py"

KEY_MUTANTS: list[Mutant] = [
    m(
        "one key for all",
        "the calls of all owners are signed by one key",
        (
            "adapters/webhook_keys.py",
            "        return self._prefix + plain\n",
            '        return self._prefix + "stage"\n',
        ),
        by=STORE,
    ),
    m(
        "key remembered for all",
        "a sender signs the next owner's call by the key that it remembers",
        (
            "adapters/webhook_signature.py",
            "known = self._known.get(owner)",
            "known = next(iter(self._known.values()), None)",
        ),
        by=SIGNATURES,
    ),
    m(
        "key remembered for ever",
        "a sender never reads a key again",
        ("adapters/webhook_signature.py", "0 <= now - known.read_at < REMEMBERED_SECONDS", "True"),
        by=SIGNATURES,
    ),
    m(
        "no key while none can be read",
        "a sender that cannot read a key again does not sign by the one that it knows",
        (
            "adapters/webhook_signature.py",
            "            if known is None:\n                raise\n",
            "            raise\n",
        ),
        by=SIGNATURES,
    ),
    m(
        "an old key for ever",
        "a sender that cannot read a key again signs by the one that it knows, however old",
        ("adapters/webhook_signature.py", "not 0 <= now - known.read_at < STALE_SECONDS", "now < known.read_at"),
        by=SIGNATURES,
    ),
    m(
        "loser signs by its own",
        "a sender that comes second signs by the key that it would have made",
        (
            "key_ports.py",
            "stored = store.create(owner, WebhookKeys(secret=new_secret(), created_at=int(now)))",
            "store.create(owner, new := WebhookKeys(secret=new_secret(), created_at=int(now))); "
            "return StoredKeys(new, '')",
        ),
        by=SIGNATURES,
    ),
    m(
        "rotation without condition",
        "of two rotations at once the later takes the place of the first",
        (
            "adapters/webhook_keys.py",
            "SecretString=text, VersionStages=[NEXT])",
            "SecretString=text)",
        ),
        by=STORE,
    ),
    m(
        "lost race is a success",
        "a rotation that came second answers a key that signs nothing",
        (
            "adapters/webhook_keys.py",
            "            return self.get(owner) or read\n",
            "            return StoredKeys(keys, version)\n",
        ),
        by=STORE,
    ),
    m(
        "old key at once",
        "the key before signs no more after a rotation",
        (
            "domain/webhook_key.py",
            "[self.secret, *(one.secret for one in self.previous if now < one.until)]",
            "[self.secret]",
        ),
        by=KEYS,
    ),
    m(
        "old key for ever",
        "the key before signs after its day",
        ("domain/webhook_key.py", "for one in self.previous if now < one.until)]", "for one in self.previous)]"),
        by=KEYS,
    ),
    m(
        "second rotation drops the first key",
        "a second rotation within the day ends the key before the first",
        (
            "domain/webhook_key.py",
            "(PreviousKey(self.secret, end), *self.previous)",
            "(PreviousKey(self.secret, end),)",
        ),
        by=KEYS,
    ),
    m(
        "key for every scheduler",
        "every scheduler reads every owner's key",
        ("usecases/webhook_keys.py", "    caller.must_change(name)\n", "    caller.must_write()\n"),
        by=KEYS,
    ),
]
