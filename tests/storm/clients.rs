//! The clients: each takes the next intent and goes after it, the way its manner says.
//!
//! Promises: at most so many at a time as the plan says, herds aside; every call stands in the history once it has ended;
//! all choices come from the seed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fastrand::Rng;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::Fallible;
use crate::call::{Request, token, trace};
use crate::gates::Gate;
use crate::history::{Call, Came, History};
use crate::intents::{Intent, Manner, Misuse, TENANTS, USERS, is_resolved, key_of_order};

/// What whoever comes second hears, where a key is used for two things.
const KEY_IS_TAKEN: &str = "idempotency_key_reuse_with_different_args";

/// What all of them share.
pub(crate) struct Crowd {
    gates: Arc<Vec<Gate>>,
    history: Arc<History>,
    tokens: HashMap<(String, String, bool), String>,
    next: AtomicUsize,
    seed: u64,
}

/// One call, before it is sent.
struct Wish<'a> {
    intent: &'a Intent,
    user: &'a str,
    order: &'a str,
    key: Option<&'a str>,
    scoped: bool,
}

impl Crowd {
    /// Clients of these gates.
    pub(crate) fn of(gates: Arc<Vec<Gate>>, history: Arc<History>, seed: u64) -> Fallible<Self> {
        let mut tokens = HashMap::new();
        for tenant in TENANTS {
            for user in USERS {
                for scoped in [true, false] {
                    tokens.insert((tenant.to_owned(), user.to_owned(), scoped), token(tenant, user, scoped)?);
                }
            }
        }
        Ok(Self { gates, history, tokens, next: AtomicUsize::new(0), seed })
    }

    /// Goes after intents until the time is over, then lets those in hand go.
    pub(crate) async fn storm(self: Arc<Self>, clients: usize, until: Instant) {
        let mut crowd = JoinSet::new();
        for _ in 0..clients {
            let this = Arc::clone(&self);
            crowd.spawn(async move {
                while Instant::now() < until {
                    let number = this.next.fetch_add(1, Ordering::SeqCst);
                    this.history.open().intents = number + 1;
                    let mut rng = this.rng(number);
                    let intent = Intent::draw(number, &mut rng);
                    this.pursue(&intent, &mut rng, until).await;
                }
            });
        }
        crowd.join_all().await;
    }

    /// After the storm: every intent with a key is asked for once more, until it comes to an end.
    pub(crate) async fn finish(self: Arc<Self>, clients: usize, limit: Duration) {
        let until = Instant::now() + limit;
        let all = self.next.load(Ordering::SeqCst);
        let left = Arc::new(AtomicUsize::new(0));
        let mut crowd = JoinSet::new();
        for _ in 0..clients {
            let (this, left) = (Arc::clone(&self), Arc::clone(&left));
            crowd.spawn(async move {
                loop {
                    let number = left.fetch_add(1, Ordering::SeqCst);
                    if number >= all {
                        return;
                    }
                    let intent = Intent::draw(number, &mut this.rng(number));
                    let mut rng = this.rng(usize::MAX - number);
                    if let Manner::Keyed { .. } = intent.manner {
                        this.bring_to_an_end(&intent, &mut rng, until).await;
                    }
                }
            });
        }
        crowd.join_all().await;
    }

    fn rng(&self, number: usize) -> Rng {
        let number = u64::try_from(number).unwrap_or(u64::MAX);
        Rng::with_seed(self.seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    async fn pursue(&self, intent: &Intent, rng: &mut Rng, until: Instant) {
        let key = key_of_order(&intent.order);
        let wish = Wish { intent, user: intent.user, order: &intent.order, key: Some(&key), scoped: true };
        match intent.manner {
            Manner::Keyed { patience, herd, misuse } => {
                if let Some(misuse) = misuse {
                    self.misuse(&wish, misuse, rng).await;
                }
                if herd > 1 {
                    let seeds: Vec<Rng> = (0..herd).map(|_| rng.fork()).collect();
                    let herd = seeds.into_iter().map(|mut rng| {
                        let wish = &wish;
                        async move { self.call(wish, &mut rng, false).await }
                    });
                    futures_util::future::join_all(herd).await;
                }
                self.insist(&wish, patience, rng, until).await;
            }
            Manner::Unscoped => {
                self.call(&Wish { scoped: false, ..wish }, rng, false).await;
            }
            Manner::Keyless | Manner::Read => {
                self.call(&Wish { key: None, ..wish }, rng, false).await;
            }
        }
    }

    /// Tries until there is an answer, or patience ends; then perhaps asks again, as clients do whose answer got lost
    /// on the last step.
    async fn insist(&self, wish: &Wish<'_>, patience: u32, rng: &mut Rng, until: Instant) {
        let mut again = rng.u32(..100) < 40;
        for _ in 0..patience {
            let came = self.call(wish, rng, false).await;
            if Instant::now() > until {
                return;
            }
            match came {
                Came::Answer { .. } if again && rng.bool() => {}
                Came::Answer { .. } if again => {
                    again = false;
                    sleep(Duration::from_millis(rng.u64(1..800))).await;
                }
                Came::Answer { .. } => return,
                Came::Refusal { code, .. } if code == KEY_IS_TAKEN => return,
                // Some believe that asking again helps.
                Came::Refusal { code, retry_after: None, .. } if code == "outcome_unknown" && rng.bool() => {
                    return;
                }
                Came::Refusal { .. } | Came::Nothing(_) | Came::Garbled(_) => {
                    sleep(Duration::from_millis(rng.u64(5..400))).await;
                }
            }
        }
    }

    async fn misuse(&self, wish: &Wish<'_>, misuse: Misuse, rng: &mut Rng) {
        let first = rng.bool();
        if first {
            self.call(wish, rng, false).await;
        }
        let other = format!("{}-other", wish.order);
        let wrong = match misuse {
            Misuse::OtherArguments => Wish { order: &other, ..*wish },
            Misuse::OtherUser => {
                let user = USERS.into_iter().find(|user| *user != wish.user).unwrap_or_default();
                Wish { user, ..*wish }
            }
        };
        self.call(&wrong, rng, false).await;
    }

    async fn bring_to_an_end(&self, intent: &Intent, rng: &mut Rng, until: Instant) {
        let key = key_of_order(&intent.order);
        let wish = Wish { intent, user: intent.user, order: &intent.order, key: Some(&key), scoped: true };
        while Instant::now() < until {
            match self.call(&wish, rng, true).await {
                Came::Refusal { code, .. } if code == KEY_IS_TAKEN => return,
                Came::Refusal { code, .. } if code == "outcome_unknown" && !is_resolved(intent.tool) => {
                    return;
                }
                Came::Refusal { retry_after, .. } => {
                    sleep(retry_after.unwrap_or(Duration::from_millis(100))).await;
                }
                Came::Nothing(_) => sleep(Duration::from_millis(100)).await,
                Came::Answer { .. } | Came::Garbled(_) => return,
            }
        }
    }

    /// One call, through some gate.
    async fn call(&self, wish: &Wish<'_>, rng: &mut Rng, last: bool) -> Came {
        let gate = &self.gates[rng.usize(..self.gates.len())];
        let sent = self.history.now();
        let trace = trace(sent, rng);
        let tenant = wish.intent.tenant;
        let token = &self.tokens[&(tenant.to_owned(), wish.user.to_owned(), wish.scoped)];
        let hangs_up = (!last && rng.u32(..100) < 12).then(|| Duration::from_millis(rng.u64(1..400)));
        let request = Request {
            trace: &trace,
            token,
            tool: wish.intent.tool,
            order: wish.order,
            key: wish.key,
            hangs_up,
        };
        let came = request.send(gate.front.address()).await;
        let call = Call {
            tenant: tenant.to_owned(),
            user: wish.user.to_owned(),
            tool: wish.intent.tool.to_owned(),
            key: wish.key.map(str::to_owned),
            order: wish.order.to_owned(),
            scoped: wish.scoped,
            gate: gate.number,
            sent,
            heard: self.history.now(),
            came: came.clone(),
            last,
            trace,
        };
        self.history.open().calls.push(call);
        came
    }
}
