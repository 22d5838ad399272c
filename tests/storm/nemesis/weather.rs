//! Bad weather on one link of a gate.
//!
//! Promises: it clears up again.

use std::time::Duration;

use fastrand::Rng;
use tokio::time::sleep;

use super::Nemesis;
use crate::Fallible;
use crate::gates::Gate;
use crate::proxy::Weather;

impl Nemesis {
    pub(super) async fn weather(&self, gate: &Gate, rng: &mut Rng) -> Fallible<()> {
        let link = match (rng.u32(..3), &gate.to_store) {
            (0, Some(link)) => link,
            (0, None) | (1, _) => &gate.back,
            _ => &gate.front,
        };
        let (weather, kind) = match rng.u32(..7) {
            0 => (Weather::Slow(Duration::from_millis(rng.u64(20..400))), "link slow"),
            1 => (Weather::Throttled, "link throttled"),
            2 => (Weather::Stalled, "link stalled"),
            3 | 4 => (Weather::Resetting, "link reset"),
            5 => (Weather::BlackHole, "link to nowhere"),
            _ => (Weather::CutAfter(rng.usize(1..4000)), "link cut"),
        };
        let from = self.history.now();
        link.set(weather);
        // A reset is over in a moment; everything else lasts.
        let lasts = if weather == Weather::Resetting { rng.u64(5..600) } else { rng.u64(300..3000) };
        sleep(Duration::from_millis(lasts)).await;
        link.set(Weather::Clear);
        self.note(kind, Some(gate.number), from);
        Ok(())
    }
}
