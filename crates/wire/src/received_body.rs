//! Reads the body of a request within the limits of its server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use tokio::time::timeout;

use crate::refusal::RefusalReason;
use crate::server::ServerLimits;

/// The bytes of all bodies that are being received.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldBytes(Arc<AtomicU64>);

/// A part of the held bytes, which ends with the body.
struct HeldShare<'a> {
    held: &'a HeldBytes,
    bytes: u64,
}

impl HeldShare<'_> {
    /// Adds bytes, unless the sum would be above the limit.
    fn try_add(&mut self, bytes: u64, limit: u64) -> bool {
        let add = |held: u64| held.checked_add(bytes).filter(|sum| *sum <= limit);
        let is_added = self.held.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, add).is_ok();
        self.bytes += if is_added { bytes } else { 0 };
        is_added
    }
}

impl Drop for HeldShare<'_> {
    fn drop(&mut self) {
        self.held.0.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

/// Reads a body. The rest of one that is too large is read and dropped, so that its size is known and the client reads
/// the answer.
pub(crate) async fn read_body(
    body: Incoming,
    awaits_consent: bool,
    limits: &ServerLimits,
    held: &HeldBytes,
) -> Result<Vec<u8>, RefusalReason> {
    let claimed = body.size_hint().exact();
    let limit = limits.body_bytes;
    if let Some(bytes) = claimed.filter(|bytes| *bytes > limit && awaits_consent) {
        return Err(RefusalReason::LargeBody { limit, bytes, has_more: false });
    }
    let mut bytes = 0;
    match timeout(limits.body_time, collect_body(body, limits, held, &mut bytes)).await {
        Ok(collected) => collected,
        Err(_) if claimed.unwrap_or(bytes) > limit => {
            let has_more = claimed.is_none();
            Err(RefusalReason::LargeBody { limit, bytes: claimed.unwrap_or(bytes), has_more })
        }
        Err(_) => Err(RefusalReason::SlowBody { bytes }),
    }
}

async fn collect_body(
    mut body: Incoming,
    limits: &ServerLimits,
    held: &HeldBytes,
    bytes: &mut u64,
) -> Result<Vec<u8>, RefusalReason> {
    let claimed = body.size_hint().exact();
    let limit = limits.body_bytes;
    let is_large = |bytes: u64| claimed.unwrap_or(bytes) > limit;
    let mut share = HeldShare { held, bytes: 0 };
    let mut kept = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            return Err(if is_large(*bytes) {
                RefusalReason::LargeBody {
                    limit,
                    bytes: claimed.unwrap_or(*bytes),
                    has_more: claimed.is_none(),
                }
            } else {
                RefusalReason::BrokenBody { bytes: *bytes }
            });
        };
        let Ok(data) = frame.into_data() else { continue };
        *bytes += data.len() as u64;
        if is_large(*bytes) {
            kept = Vec::new();
        } else if share.try_add(data.len() as u64, limits.held_bytes) {
            extend_within(&mut kept, &data, limit);
        } else {
            return Err(RefusalReason::HeldBytes { limit: limits.held_bytes });
        }
    }
    if is_large(*bytes) {
        return Err(RefusalReason::LargeBody { limit, bytes: *bytes, has_more: false });
    }
    Ok(kept)
}

/// Appends bytes. The capacity grows by doubling, and never above the limit.
fn extend_within(kept: &mut Vec<u8>, data: &[u8], limit: u64) {
    let needed = kept.len() + data.len();
    if needed > kept.capacity() {
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let wanted = (kept.capacity() * 2).min(most).max(needed);
        kept.reserve_exact(wanted - kept.len());
    }
    kept.extend_from_slice(data);
}
