//! Metal cannot run here, so that its example is all that calls it: of what the profiler has, nothing
//! may be missing there.

/// The front door of the backend.
const SOURCES: [&str; 5] = [
    include_str!("../../../src/gpu/metal/profiler.rs"),
    include_str!("../../../src/gpu/metal/commands.rs"),
    include_str!("../../../src/gpu/metal/scope.rs"),
    include_str!("../../../src/gpu/metal/stream.rs"),
    include_str!("../../../src/gpu/memory.rs"),
];
const EXAMPLE: &str = include_str!("../../../examples/metal_pipeline.rs");

/// Names of public functions of a source, without those of the traits that it implements.
fn public(source: &str) -> impl Iterator<Item = &str> {
    let source = source.split("#[cfg(test)]").next().unwrap_or(source);
    source.lines().filter_map(|line| {
        let name = line.trim_start().strip_prefix("pub fn ")?;
        name.split(['(', '<']).next()
    })
}

#[test]
fn the_example_of_metal_makes_every_call_that_the_profiler_has() {
    let all: Vec<&str> = SOURCES.into_iter().flat_map(public).collect();
    assert!(all.len() > 30 && all.contains(&"profile_blit_in"), "the sources were read: {all:?}");
    let made = |name: &&&str| {
        // `of` is called by the profiler: a program has its memory from there.
        [format!(".{name}("), format!("::{name}(")].iter().any(|call| EXAMPLE.contains(call))
    };
    let missing: Vec<&&str> = all.iter().filter(|name| **name != "of" && !made(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    for of_a_wrapper in ["fn command_buffer(", "fn commit_commands(", "impl CommandBufferWrapper"] {
        assert!(EXAMPLE.contains(of_a_wrapper));
    }
}
