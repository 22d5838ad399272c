//! What the operator says, in a file, in the environment and in flags; and what of it the program uses.
//!
//! Promises: a flag beats the environment, and the environment beats the file, setting by setting; what is not known
//! is refused wherever it stands; a mistake names its line, its variable or its flag; nothing that guards has a
//! default (store, policy, secrets, issuer, audience, session age); a command needs only the settings that it uses.
//!
//! Paths are relative to the working directory, wherever they are written: a flag, a variable and the file mean the
//! same file by the same text.
//!
//! Absent on purpose: secrets in plain sight. They come from files only (`…_file`), as Kubernetes mounts them. An
//! environment is inherited by every child process and printed by every `describe`. The store's URL may hold a
//! password, so it has its `url_file` too.

mod auth;
mod checked;
mod checks;
mod files;
mod fixed;
mod flags;
mod layers;
mod listener;
mod listener_policy;
mod named;
mod number;
mod raw;
mod retention;
mod schema;
mod serve;
mod services;
mod settings;
mod traces;

pub use checked::{
    AdminConfig, AuditConfig, AuthConfig, ClaimNames, IdentityConfig, KeySource, Limits, ListenerConfig,
    ProviderConfig, ServeConfig, ServiceTokenConfig, SpoolConfig, StoreConfig, TracesConfig, UpstreamConfig,
};
pub use files::{AdminToken, Secret, ServiceToken, load_policy, read_cases_dir, read_policy_dir};
pub use fixed::{Fixed, RELOADABLE};
pub use flags::{ConfigFlags, SETTINGS_HEADING};
pub use layers::Layers;
pub use listener_policy::load_listener_policy;
pub use named::NamedFiles;
pub use retention::{RetentionConfig, period, period_text};
pub use schema::config_schema;
pub use settings::{SETTINGS, Setting};
