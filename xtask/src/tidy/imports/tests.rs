use super::*;

/// Returns a crate `a` with these files in its `src` folder.
fn tree(files: &[(&str, &str)]) -> Vec<Source> {
    files
        .iter()
        .map(|(path, text)| Source {
            path: format!("crates/a/src/{path}"),
            text: (*text).to_owned(),
        })
        .collect()
}

fn found(files: &[(&str, &str)]) -> Vec<String> {
    check_except(&tree(files), &[])
        .into_iter()
        .map(|finding| finding.what)
        .collect()
}

#[test]
fn two_modules_that_import_each_other_are_a_circle() {
    assert_eq!(
        found(&[
            ("lib.rs", "mod b;\nmod c;"),
            ("b.rs", "use crate::c::C;\npub struct B;"),
            ("c.rs", "pub struct C;\n\nfn f(_: super::b::B) {}"),
        ]),
        ["import cycle: b imports c (crates/a/src/b.rs:1), c imports b (crates/a/src/c.rs:3)"]
    );
}

#[test]
fn a_chain_of_imports_is_not_a_circle() {
    assert!(
        found(&[
            ("lib.rs", "mod b;\nmod c;\nmod d;"),
            ("b.rs", "use crate::{c::C, d::D};"),
            ("c.rs", "use crate::d::D;\npub struct C;"),
            ("d.rs", "pub struct D;"),
        ])
        .is_empty()
    );
}

#[test]
fn a_module_and_its_children_may_import_each_other() {
    assert!(
        found(&[
            ("lib.rs", "mod b;\nuse b::B;\npub struct A;"),
            (
                "b/mod.rs",
                "mod c;\nuse c::C;\nuse crate::A;\npub struct B;"
            ),
            ("b/c.rs", "use super::B;\npub struct C;"),
        ])
        .is_empty()
    );
}

#[test]
fn an_import_counts_for_the_siblings_around_it() {
    assert_eq!(
        found(&[
            ("lib.rs", "mod b;\nmod c;"),
            ("b/mod.rs", "mod x;\nmod y;"),
            ("b/x.rs", "use crate::c::z::Z;"),
            ("b/y.rs", "pub struct Y;"),
            ("c/mod.rs", "pub mod z;\nmod w;"),
            ("c/z.rs", "pub struct Z;"),
            ("c/w.rs", "fn f() { crate::b::y::g() }"),
        ]),
        ["import cycle: b imports c (crates/a/src/b/x.rs:1), c imports b (crates/a/src/c/w.rs:1)"]
    );
}

#[test]
fn a_circle_below_a_module_names_it() {
    assert_eq!(
        found(&[
            ("lib.rs", "mod b;"),
            ("b.rs", "mod x;\nmod y;"),
            ("b/x.rs", "use super::y::Y;\npub struct X;"),
            ("b/y.rs", "use super::x::X;\npub struct Y;"),
        ]),
        [
            "import cycle in b: x imports y (crates/a/src/b/x.rs:1), y imports x (crates/a/src/b/y.rs:1)"
        ]
    );
}

#[test]
fn a_name_is_imported_from_where_it_is_defined() {
    // `C` is re-exported by the root, by name and by a glob, and imported under another name.
    for root in [
        "mod b;\nmod c;\npub use c::C;",
        "mod b;\nmod c;\npub use c::*;",
        "mod b;\nmod c;\nuse c::C as D;",
    ] {
        let name = if root.contains('D') { "D" } else { "C" };
        let circle = found(&[
            ("lib.rs", root),
            ("b.rs", &format!("use super::{name};\npub struct B;")),
            ("c.rs", "use crate::b::B;\npub struct C;"),
        ]);
        assert_eq!(circle.len(), 1, "{root}");
    }
}

#[test]
fn paths_in_macros_and_inline_modules_count() {
    assert_eq!(
        found(&[
            (
                "lib.rs",
                "mod b {\n    fn f() { assert!(crate::c::g()) }\n    pub struct B;\n}\nmod c;"
            ),
            ("c.rs", "use crate::b::B;\npub fn g() {}"),
        ])
        .len(),
        1
    );
}

#[test]
fn lists_of_imports_are_read_whole() {
    for list in [
        "use crate::{c::{self, x}, d,};",
        "use crate::{d, c::*,};",
        "use crate::d; use crate::c as e;",
        "fn f() -> impl Fn() + use<'_, T> { crate::c::g() }",
    ] {
        let circle = found(&[
            ("lib.rs", "mod b;\nmod c;\nmod d;"),
            ("b.rs", list),
            ("c.rs", "use crate::b;"),
            ("d.rs", ""),
        ]);
        assert_eq!(circle.len(), 1, "{list}");
    }
}

#[test]
fn imports_of_tests_do_not_count() {
    assert!(
        found(&[
            ("lib.rs", "mod b;\nmod c;"),
            (
                "b.rs",
                "pub struct B;\n#[cfg(test)]\nuse crate::c::{C, D};\n#[cfg(test)]\nmod tests {\n    use crate::c::C;\n}",
            ),
            ("c.rs", "use crate::b::B;\npub struct C;"),
        ])
        .is_empty()
    );
}

#[test]
fn names_of_other_crates_are_no_modules() {
    assert!(
        found(&[
            ("lib.rs", "mod b;\nmod c;"),
            ("b.rs", "use toml;\nuse std::c::C;\npub struct B;"),
            ("c.rs", "use crate::b::B;\n// use crate::b;\npub struct C;"),
        ])
        .is_empty()
    );
}

#[test]
fn a_known_circle_passes_until_it_is_broken() {
    let files = [
        ("lib.rs", "mod b;\nmod c;"),
        ("b.rs", "use crate::c::C;\npub struct B;"),
        ("c.rs", "use crate::b::B;\npub struct C;"),
    ];
    let known = [("a::c", "a::b")];
    assert!(check_except(&tree(&files), &known).is_empty());
    let stale = check_except(&tree(&files[..2]), &known);
    assert_eq!(stale.len(), 1);
    assert!(stale[0].what.contains("no longer closes a cycle"));
}
