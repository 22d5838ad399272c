//! Where rows wait that the store cannot take.

use std::path::Path;

use oncegate::domain::mode::WhenStoreDown;

use super::Sources;

#[test]
fn reads_are_refused_in_an_outage_unless_a_file_is_named_for_their_rows() {
    let audit = Sources::new().serve().audit;
    assert_eq!((audit.when_store_down, audit.spool), (WhenStoreDown::Refuse, None));
    let named = Sources::new().variable("ONCEGATE_AUDIT__SPOOL_FILE", "spool");
    let audit = named.serve().audit;
    assert_eq!(audit.when_store_down, WhenStoreDown::Refuse);
    let spool = audit.spool.expect("the file is named");
    assert_eq!((spool.file.as_path(), spool.limit), (Path::new("spool"), 64 << 20));
    let served = named.flags(&["--audit-when-store-down", "spool", "--audit-spool-limit", "2MiB"]);
    let audit = served.serve().audit;
    assert_eq!(audit.when_store_down, WhenStoreDown::Spool);
    assert_eq!(audit.spool.expect("the file is named").limit, 2 << 20);
}

#[test]
fn serving_reads_in_an_outage_needs_the_file_and_a_sound_limit() {
    let told = Sources::new().flags(&["--audit-when-store-down", "spool"]).mistakes();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("--audit-when-store-down: "), "{told:?}");
    assert!(told[0].contains("without audit.spool_file"), "{told:?}");
    let told = Sources::new().file("[policy]", "[audit]\nspool_limit = \"1KiB\"\n[policy]").mistakes();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].ends_with("audit.spool_limit = 1024 bytes makes no sense; it may be 1MiB to 1GiB"),
        "{told:?}"
    );
    let told = Sources::new().flags(&["--audit-when-store-down", "drop"]).mistakes();
    assert!(told[0].contains("refuse") && told[0].contains("spool"), "{told:?}");
}
