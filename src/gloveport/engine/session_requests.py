"""Handles session requests besides running programs: variables, rewind, branch, interrupt, close."""

import contextlib
import hashlib
import os

from msgspec import Struct
from msgspec.structs import replace

from gloveport.audit.log import AuditLog
from gloveport.egress.scrubbed_output import without_secrets
from gloveport.engine.session import Session
from gloveport.engine.sessions import Sessions
from gloveport.errors import Denied
from gloveport.fairness import compute
from gloveport.guard import Guard
from gloveport.limits.admission import AdmissionQueue
from gloveport.model import Execute, Language, SessionState
from gloveport.model.json_value import JsonValue
from gloveport.model.reading import read_value
from gloveport.model.run_result import VARIABLE_CHARACTERS, Variable
from gloveport.sandbox.base import Outcome
from gloveport.sandbox.run.sinks import DiscardedOutput
from gloveport.secrets.vault import Vault
from gloveport.untrusted_text import one_line

_ASK_SECONDS = 10.0


class SessionRequests(Struct, frozen=True, kw_only=True):
    """Answers session requests, and records them.

    Attributes:
        vault: Knows the secrets that no answer may hold.
    """

    sessions: Sessions
    audit: AuditLog
    admission: AdmissionQueue
    vault: Vault

    async def ask(
        self, session: Session, message: dict[str, JsonValue], *, caller: str
    ) -> tuple[Outcome, SessionState]:
        """Ask a session for ``variables``, to ``inspect`` one, to ``rewind`` and so on.

        Its doors are not answered meanwhile.

        Raises:
            Denied: It is over, there is no place, or it is a command session: to inspect is to run an expression.
            SandboxError, AuditError: As ``Engine.execute``.
        """
        if session.purpose == "commands":
            raise Denied(
                "session_of_commands",
                "This session runs commands: there are no variables of a program to look at, and nothing to rewind.",
                hint="exec_command with this session tells what the shell has: declare -p",
            )
        limits = session.grant.limits
        guard = Guard(audit=self.audit, caller=caller, run_id=f"run-{os.urandom(8).hex()}", grant=session.grant)
        text = str(message.get("expression", "")).encode("utf-8", "surrogatepass")
        language: Language = "python" if session.language == "shell" else session.language  # a shell lists nothing
        action = Execute(language=language, code_bytes=len(text), code_sha256=hashlib.sha256(text).hexdigest())
        message = {"language": language, **message}
        async with guard.admit(action) as ending, session.take_turn(), self.admission.place(session.owner):
            nowhere = DiscardedOutput()
            with session.use_sandbox():
                outcome = await session.call(
                    message,
                    wall_seconds=min(_ASK_SECONDS, limits.wall_seconds),
                    value_bytes=int(limits.output_bytes),
                    stdout=nowhere,
                    stderr=nowhere,
                )
            report = await compute(int(limits.output_bytes), without_secrets, outcome.report, self.vault)
            state = self.state_of(session, outcome)
            ending.fields.update({"session": session.id, "state": state.state, "asked": str(message["do"])})
        return replace(outcome, report=report), state

    async def branch(self, session: Session, *, caller: str) -> Session:
        """A new session in the same sandbox, which continues independently from this one's present Python state.

        Raises:
            Denied: There are too many, it is over, or its Python could not be copied.
            SandboxError, AuditError: As ``Engine.execute``.
        """
        branch = self.sessions.branch(session)
        try:
            trunk = session.trunk or session
            live: list[JsonValue] = [one.branch for one in trunk.branches]
            message: dict[str, JsonValue] = {"do": "branch", "into": branch.branch, "live": live}
            outcome, _ = await self.ask(session, message, caller=caller)
        except BaseException:
            branch.end("it was never made")
            raise
        if not isinstance(outcome.session, dict) or outcome.session.get("is_branched") is not True:
            branch.end("it was never made")
            raise Denied(
                "not_branched",
                "Its Python could not be copied: it takes no call, or there is no room for another.",
                hint="try it again, or begin another session",
            )
        self.audit.append("session.branched", {"caller": caller, "session": session.id, "branch": branch.id})
        return branch

    async def close(self, session: Session, *, caller: str) -> None:
        """End a session for its caller, and return when nothing is left of it. Raises AuditError."""
        self.audit.append("session.closed", {"caller": caller, "session": session.id})
        try:
            if session.trunk is not None and not session.ended:
                with contextlib.suppress(Denied):  # its sandbox has gone already
                    await self.ask(session, {"do": "close"}, caller=caller)
        finally:  # a branch of which this is not heard inside ends there with the next
            session.end("its caller has closed it")
        await session.wait_over()

    def interrupt(self, session: Session, *, caller: str) -> bool:
        """Interrupt the running call; tell whether there is one. Raises AuditError."""
        self.audit.append("session.interrupted", {"caller": caller, "session": session.id})
        return session.interrupt()

    def state_of(self, session: Session, outcome: Outcome | None = None) -> SessionState:
        """The state of a session, without secrets in its interpreter's texts."""
        state = session.describe(outcome)
        variables = tuple(self._show(one) for one in state.variables)
        if self.vault.is_empty:
            return state.model_copy(update={"variables": variables}) if variables else state
        fields = self.vault.clean_fields(state.model_dump(mode="json", exclude={"variables"}))
        return read_value(SessionState, {**fields, "variables": variables})

    def _show(self, variable: Variable) -> Variable:
        """The variable in printable texts without secrets. Both make texts longer, so they are cut again."""
        most, clean = VARIABLE_CHARACTERS, self.vault.clean
        texts = {name: clean(one_line(text, most))[:most] for name, text in variable.items() if isinstance(text, str)}
        return variable.model_copy(update=texts)
