//! Live events: one follower of the ledger feeds the streams of all tabs.
//!
//! The id of an event is its position in the ledger, so a browser that reconnects names the last one that it has seen, and the
//! stream continues behind it. A stream first reads the events that it has missed, then takes those of the follower. A reader that
//! is too slow loses its stream and continues where it was after it connected again.

use std::convert::Infallible;
use std::future::{Future as _, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use callsheet::Project;
use callsheet::error::Result;
use callsheet::events::{EventFollower, EventOutput, EventPosition};
use callsheet_core::diag::Code;
use callsheet_core::record::EventName;
use futures_core::Stream;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, mpsc};
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use crate::answer::PageFailure;
use crate::connection::WRITE_LIMIT;
use crate::site::{PageResult, SiteState};

/// The most streams of one server.
pub(crate) const MOST_STREAMS: usize = 64;

/// The most events that wait for the slowest stream.
const MOST_WAITING: usize = 1024;

/// The most chunks that wait for a browser.
const MOST_CHUNKS: usize = 4;

/// How often the follower looks for new records.
const PAUSE: Duration = Duration::from_millis(200);

/// How often a stream without events writes something, so that a browser that is gone is noticed.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// An event as tabs see it: it says what changed, and the tab reads the page again. It holds no text of an agent.
#[derive(Clone, Debug, Serialize)]
struct TabEvent {
    seq: u64,
    index: usize,
    event: EventName,
    run: Option<String>,
    flow: Option<String>,
}

impl TabEvent {
    fn new(event: &EventOutput) -> Self {
        let EventOutput { seq, index, event: name, run, flow, .. } = event;
        Self { seq: *seq, index: *index, event: *name, run: run.clone(), flow: flow.clone() }
    }

    fn is_behind(&self, position: EventPosition) -> bool {
        let same = self.seq == position.seq && position.index.is_some_and(|index| self.index > index);
        self.seq > position.seq || same
    }

    /// Returns the event in the format of server-sent events.
    fn to_chunk(&self) -> String {
        // Words and numbers are all that it holds.
        let data = serde_json::to_string(self).unwrap_or_default();
        format!("id: {}.{}\ndata: {data}\n\n", self.seq, self.index)
    }
}

/// The follower of the ledger and its streams.
#[derive(Debug)]
pub(crate) struct EventHub {
    project: Arc<Project>,
    streams: Arc<Semaphore>,
    sender: Mutex<Weak<broadcast::Sender<Arc<TabEvent>>>>,
}

impl EventHub {
    /// Creates a hub without a follower: the first stream starts it.
    pub(crate) fn new(project: Arc<Project>) -> Self {
        Self { project, streams: Arc::new(Semaphore::new(MOST_STREAMS)), sender: Mutex::default() }
    }

    /// Subscribes to the events from now on. The follower ends when the last subscriber is gone.
    fn subscribe(&self) -> Result<Subscription> {
        let mut known = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = known.upgrade() {
            return Ok(Subscription { receiver: sender.subscribe(), _sender: sender });
        }
        // The position is fixed before the subscriber reads the events that it has missed, so that none falls between both.
        let position = read_head(&self.project)?;
        let sender = Arc::new(broadcast::channel(MOST_WAITING).0);
        *known = Arc::downgrade(&sender);
        let (project, weak) = (Arc::clone(&self.project), Arc::downgrade(&sender));
        thread::spawn(move || follow_ledger(&project, position, &weak));
        Ok(Subscription { receiver: sender.subscribe(), _sender: sender })
    }
}

/// Returns the position behind the last event; the first position if there is no ledger yet.
fn read_head(project: &Project) -> Result<EventPosition> {
    match project.read_ledger() {
        Ok(mut ledger) => Ok(EventPosition { seq: ledger.head()?.seq, index: None }),
        Err(error) if error.is_only(Code::LedgerNotThere) => Ok(EventPosition::default()),
        Err(error) => Err(error),
    }
}

/// Opens the events behind a position; `None` if there is no ledger yet, because the call itself would wait for it.
fn open_follower(project: &Project, since: EventPosition) -> Result<Option<EventFollower>> {
    match project.read_ledger() {
        Ok(_) => EventFollower::open(project, Some(since)).map(Some),
        Err(error) if error.is_only(Code::LedgerNotThere) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A subscriber, which keeps the follower alive.
#[derive(Debug)]
struct Subscription {
    receiver: broadcast::Receiver<Arc<TabEvent>>,
    _sender: Arc<broadcast::Sender<Arc<TabEvent>>>,
}

/// Sends the events of the ledger behind a position until there is no subscriber.
fn follow_ledger(
    project: &Project,
    mut position: EventPosition,
    sender: &Weak<broadcast::Sender<Arc<TabEvent>>>,
) {
    let mut follower = None;
    while let Some(sender) = sender.upgrade() {
        if follower.is_none() {
            follower = open_follower(project, position).ok().flatten();
        }
        match follower.as_mut().map(EventFollower::poll) {
            Some(Ok(events)) => {
                for event in &events {
                    position = EventPosition { seq: event.seq, index: Some(event.index) };
                    // Without a subscriber the event is dropped, and the next subscriber reads it in the ledger.
                    let _ = sender.send(Arc::new(TabEvent::new(event)));
                }
            }
            // The ledger may be moved or replaced: it is opened again.
            Some(Err(_)) => follower = None,
            None => {}
        }
        drop(sender);
        thread::sleep(PAUSE);
    }
}

/// The streams that read missed events at the same time, so that pages are not kept waiting.
static CATCHING_UP: Semaphore = Semaphore::const_new(2);

/// The first event that a tab wants, and whose.
#[derive(Debug, Deserialize)]
pub(crate) struct StreamQuery {
    since: Option<String>,
    run: Option<String>,
}

/// Answers with the stream of events behind the last one that the tab has seen.
pub(crate) async fn stream_events(
    State(site): State<SiteState>,
    Query(query): Query<StreamQuery>,
    headers: HeaderMap,
) -> PageResult<Response> {
    let permit = Arc::clone(&site.events.streams).try_acquire_owned();
    let permit = permit.map_err(|_| PageFailure::too_many_streams())?;
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let since = last.or(query.since).map(|since| EventPosition::parse(&since)).transpose()?;
    let events = Arc::clone(&site.events);
    let subscription = site.call(move |_| Ok(events.subscribe()?)).await?;
    let (sender, receiver) = mpsc::channel(MOST_CHUNKS);
    let feeder = StreamFeeder { project: Arc::clone(&site.project), run: query.run, sender, _permit: permit };
    tokio::spawn(feeder.feed(since, subscription));
    let body = Body::from_stream(ChunkStream(receiver));
    Ok(([(header::CONTENT_TYPE, "text/event-stream")], body).into_response())
}

/// Feeds one stream.
struct StreamFeeder {
    project: Arc<Project>,
    run: Option<String>,
    sender: mpsc::Sender<String>,
    _permit: OwnedSemaphorePermit,
}

impl StreamFeeder {
    /// Sends events until the browser is gone, does not read, or has missed some.
    async fn feed(self, since: Option<EventPosition>, mut live: Subscription) {
        if !self.send("retry: 1000\n\n".into()).await {
            return;
        }
        let mut position = EventPosition::default();
        if let Some(since) = since {
            match self.send_missed(since).await {
                Some(reached) => position = reached,
                None => return,
            }
        }
        loop {
            let Some(next) = self.wait_for_event(&mut live).await else { return };
            let chunk = match next {
                Err(_) => ":\n\n".to_owned(),
                Ok(Ok(event)) if !event.is_behind(position) || !self.is_wanted(&event) => continue,
                Ok(Ok(event)) => event.to_chunk(),
                // It has missed events: the browser connects again and reads them in the ledger.
                Ok(Err(_)) => return,
            };
            if !self.send(chunk).await {
                return;
            }
        }
    }

    /// Waits for the next event or for the time of a heartbeat. Returns `None` at once if the browser is gone: a person who opens one
    /// page after another leaves a stream behind each.
    async fn wait_for_event(
        &self,
        live: &mut Subscription,
    ) -> Option<Result<Result<Arc<TabEvent>, RecvError>, Elapsed>> {
        let mut gone = pin!(self.sender.closed());
        let mut event = pin!(timeout(HEARTBEAT, live.receiver.recv()));
        poll_fn(|context| match gone.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => event.as_mut().poll(context).map(Some),
        })
        .await
    }

    /// Sends the recorded events behind a position, and returns the position that was reached.
    async fn send_missed(&self, since: EventPosition) -> Option<EventPosition> {
        let project = Arc::clone(&self.project);
        let open = move || open_follower(&project, since);
        let mut follower = tokio::task::spawn_blocking(open).await.ok()?.ok()?;
        let mut position = since;
        while let Some(mut open) = follower.take() {
            let turn = CATCHING_UP.acquire().await.ok()?;
            let read = move || open.poll().map(|events| (open, events));
            let (open, events) = tokio::task::spawn_blocking(read).await.ok()?.ok()?;
            drop(turn);
            let Some(last) = events.last() else { break };
            position = EventPosition { seq: last.seq, index: Some(last.index) };
            let events = events.iter().map(TabEvent::new).filter(|event| self.is_wanted(event));
            let chunk: String = events.map(|event| event.to_chunk()).collect();
            if !chunk.is_empty() && !self.send(chunk).await {
                return None;
            }
            follower = Some(open);
        }
        Some(position)
    }

    fn is_wanted(&self, event: &TabEvent) -> bool {
        self.run.is_none() || self.run == event.run
    }

    /// Sends a chunk. Returns whether the browser takes more.
    async fn send(&self, chunk: String) -> bool {
        matches!(timeout(WRITE_LIMIT, self.sender.send(chunk)).await, Ok(Ok(())))
    }
}

/// The chunks of a stream.
struct ChunkStream(mpsc::Receiver<String>);

impl Stream for ChunkStream {
    type Item = Result<String, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|chunk| chunk.map(Ok))
    }
}
