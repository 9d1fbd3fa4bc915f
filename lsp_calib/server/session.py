"""The services of one connection, wired together: what follows from what is in `events`."""

from __future__ import annotations

from pygls.capabilities import get_capability

from lsp_calib import home
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.server import events as on
from lsp_calib.server.admission import Admission, LastRequests
from lsp_calib.server.completions import Completions
from lsp_calib.server.documents import Documents
from lsp_calib.server.events import Events, Idle, Pace
from lsp_calib.server.history import HidingNotice, ReportPage
from lsp_calib.server.messages import Connection, LoadProgress, UserMessages
from lsp_calib.server.model import Model, Status
from lsp_calib.server.recorder import Recorder
from lsp_calib.server.refits import Learning
from lsp_calib.server.summaries import Summaries
from lsp_calib.server.tracking import Diagnostics, Refused, SuggestionTracking
from lsp_calib.server.user_messages import SummaryProgress
from lsp_calib.settings import tier_policy


class Session:
    """Constructs the services that the features call, after the answer to `initialize`: imports are slow.

    Who subscribes first to an event hears of it first. The order below matters where it is given a reason.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._closed = False
        pace = connection.pace or Pace()
        shows_bars = get_capability(connection.client_capabilities, "window.work_done_progress")
        work_done = connection.work_done_progress if shows_bars else None
        self._events = events = Events()
        self.messages = messages = UserMessages(connection)
        estimator = ConfidenceEstimator(
            CalibratorStore.open(),
            tier_policy(connection.settings),
            lambda ref: events.send(on.CalibratorChanged(ref)),
            measure=connection.settings.measure,
        )
        estimator.overrides = connection.settings.overrides

        def warn_of_settings() -> None:
            problems, connection.problems = connection.problems, []
            messages.warn(*problems)

        def complain() -> None:
            for complaint in estimator.complaints:
                messages.warn(complaint)

        events.on(on.SettingsChanged, lambda _: warn_of_settings())
        events.on(on.ModelLoaded, lambda _: complain())
        events.on(on.CalibratorChanged, lambda _: complain())
        self._idle = idle = Idle(events, pace)
        self.admission = admission = Admission(connection, events)
        self.status = status = Status(connection, estimator, events)
        self.model = model = Model(connection, estimator, status, messages, LoadProgress(work_done), events)
        self.recorder = recorder = Recorder(connection, messages, events)
        self.documents = Documents(connection, events)
        self.suggestions = tracking = SuggestionTracking(recorder, events, connection.clock)
        # After the tracking, which knows what a change has inserted; so do the edits of summaries.
        self.refused = refused = Refused(tracking, events)
        self.last_requests = last = LastRequests()
        self.diagnostics = Diagnostics(connection, tracking, events)
        self.learning = Learning(
            connection,
            model,
            estimator,
            recorder,
            status=status,
            messages=messages,
            idle=idle,
            pace=pace,
            events=events,
        )
        self.completions = Completions(
            connection,
            model,
            estimator,
            admission=admission,
            last=last,
            status=status,
            tracking=tracking,
            refused=refused,
            events=events,
        )
        self.summaries = Summaries(
            connection,
            model,
            estimator,
            admission=admission,
            status=status,
            tracking=tracking,
            recorder=recorder,
            progress=SummaryProgress(work_done),
            idle=idle,
            events=events,
        )
        self._hiding = HidingNotice(
            connection, model, estimator, recorder, messages, events, home.state_dir() / "hide-below"
        )
        self.report_page = ReportPage(
            connection, estimator, recorder, status=status, messages=messages, folder=home.state_dir()
        )

    def start(self) -> None:
        """Report faults in the settings and load the model, in the background. A remote server is first
        asked when something is wanted of it."""
        self.admission.settings_known.set()
        self.settings_changed()
        if self._connection.settings.remote_url is None:
            self.model.load()

    def settings_changed(self) -> None:
        """Apply the settings in force now."""
        self._events.send(on.SettingsChanged())

    async def close(self) -> None:
        """Settle and store the suggestions and release the model. Closing again does nothing."""
        if self._closed:
            return
        self._closed = True
        opened = [document.uri for document in self._connection.open_documents()]
        self.suggestions.close({uri: self.documents.remains(uri) for uri in opened})
        self._events.close()
        for one in (self.recorder, self.messages, self.learning, self._hiding, self.report_page):
            one.stop()
        self.admission.stop()
        self.status.close()
        self.model.stop()
        await self._idle.close()
        await self.completions.close()
        await self.admission.close()
        await self.summaries.close()
        await self.model.engine.close()
        await self.recorder.close()
