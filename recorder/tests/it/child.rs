//! Scenarios in processes of their own.
//!
//! [`child`] runs the test binary again with the name of the test that calls it.
//! In the new process the same call runs the scenario and never returns; in the
//! first one it returns a [`Child`] to be run. So a scenario stands in the middle
//! of its test, between what prepares it and what judges it.

use std::{
    env,
    ffi::{OsStr, OsString},
    fmt::Display,
    fs::{self, File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    process::{self, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use ringscope::{Builder, Recorder};
use tempfile::TempDir;

use crate::{posix, told::Told};

/// Names the directory that a scenario works in; set in its process alone.
const SCENE: &str = "RINGSCOPE_TEST_SCENE";
const ARGUMENT: &str = "RINGSCOPE_TEST_ARGUMENT";
/// A scenario that takes longer hangs; even a busy machine needs a tenth of it.
const AT_MOST: Duration = Duration::from_secs(120);

/// What a scenario knows of its test.
pub(crate) struct Scene {
    dir: PathBuf,
    said: File,
}

impl Scene {
    /// A path in the test's directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Where the test expects the trace.
    pub(crate) fn trace(&self) -> PathBuf {
        self.path("run.trace")
    }

    /// A builder with that path and without the readings that few tests want.
    pub(crate) fn builder(&self) -> Builder {
        Recorder::builder().path(self.trace()).readings(None)
    }

    /// What the test gave with [`Child::argument`].
    pub(crate) fn argument(&self) -> String {
        env::var(ARGUMENT).unwrap_or_default()
    }

    /// Tells the test something. It survives whatever happens to this process.
    pub(crate) fn say(&self, key: &str, value: impl Display) {
        let line = format!("{key}\t{value}\0");
        (&self.said).write_all(line.as_bytes()).expect("the scene is writable");
    }

    /// Tells the test why the scenario could not be played; see [`End::had`].
    pub(crate) fn lacks(&self, why: impl Display) {
        self.say(LACKING, why);
    }
}

/// Where a scenario says what it lacked.
const LACKING: &str = "lacking";

/// A scenario that is ready to run.
pub(crate) struct Child {
    test: String,
    environment: Vec<(String, OsString)>,
    dir: TempDir,
}

/// A scenario that is running.
pub(crate) struct Running {
    process: process::Child,
    dir: TempDir,
}

/// A scenario that is over.
pub(crate) struct End {
    pub(crate) status: ExitStatus,
    pub(crate) stderr: String,
    dir: TempDir,
}

/// The process of a scenario: its test, and what to do there.
pub(crate) fn child<F: FnOnce(&Scene)>(scenario: F) -> Child {
    if let Some(dir) = env::var_os(SCENE) {
        let dir = PathBuf::from(dir);
        let said = OpenOptions::new().append(true).create(true).open(dir.join("said"));
        posix::no_core_files();
        scenario(&Scene { dir, said: said.expect("the scene is writable") });
        process::exit(0);
    }
    // `it::module::test::{{closure}}` is `module::test` to the harness.
    let closure = std::any::type_name::<F>();
    let test = closure.trim_end_matches("::{{closure}}").split_once("::").expect("a path").1;
    Child::of(test.to_owned())
}

impl Child {
    fn of(test: String) -> Child {
        let dir = tempfile::tempdir().expect("a temporary directory");
        Child { test, environment: Vec::new(), dir }
    }

    /// The same scenario in another directory.
    pub(crate) fn another(&self) -> Child {
        Child::of(self.test.clone())
    }

    pub(crate) fn argument(self, argument: impl Display) -> Self {
        self.environment(ARGUMENT, argument)
    }

    pub(crate) fn environment(mut self, key: &str, value: impl Display) -> Self {
        self.environment.push((key.to_owned(), value.to_string().into()));
        self
    }

    /// A variable that need not be text.
    pub(crate) fn environment_bytes(mut self, key: &str, value: &[u8]) -> Self {
        use std::os::unix::ffi::OsStrExt;
        self.environment.push((key.to_owned(), OsStr::from_bytes(value).to_owned()));
        self
    }

    /// A path in the scenario's directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn start(self) -> Running {
        let stderr = File::create(self.path("stderr")).expect("the scene is writable");
        let mut command = Command::new(env::current_exe().expect("this binary"));
        command.args([self.test.as_str(), "--exact", "--nocapture", "--test-threads=1"]);
        command.env(SCENE, self.dir.path()).envs(self.environment);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        Running { process: command.spawn().expect("this binary runs"), dir: self.dir }
    }

    pub(crate) fn run(self) -> End {
        self.start().wait()
    }
}

impl Running {
    pub(crate) fn pid(&self) -> i32 {
        self.process.id() as i32
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Waits until the scenario has said something under this key.
    pub(crate) fn wait_until_said(&mut self, key: &str) {
        let begun = Instant::now();
        while lookup(self.dir.path(), key).is_none() {
            let gone = self.process.try_wait().expect("a child can be waited for");
            assert!(gone.is_none(), "ended without saying {key}: {}", self.stderr());
            assert!(begun.elapsed() < AT_MOST, "never said {key}: {}", self.stderr());
            thread::sleep(Duration::from_millis(1));
        }
    }

    pub(crate) fn wait(mut self) -> End {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().expect("a child can be waited for") {
                return End { status, stderr: self.stderr(), dir: self.dir };
            }
            if begun.elapsed() > AT_MOST {
                let _ = self.process.kill();
                panic!("the scenario hangs: {}", self.stderr());
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn stderr(&self) -> String {
        let bytes = fs::read(self.dir.path().join("stderr")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl End {
    /// The scenario ran to its end.
    #[track_caller]
    pub(crate) fn succeeded(self) -> Self {
        assert!(self.status.success(), "{}: {}", self.status, self.stderr);
        self
    }

    /// The scenario died of this signal.
    #[track_caller]
    pub(crate) fn died_of(self, signal: i32) -> Self {
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(self.status.signal(), Some(signal), "{}: {}", self.status, self.stderr);
        self
    }

    /// The scenario exited with this code.
    #[track_caller]
    pub(crate) fn exited_with(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "{}: {}", self.status, self.stderr);
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// What `run.trace` says; fails if any of it is damaged.
    #[track_caller]
    pub(crate) fn trace(&self) -> Told {
        Told::read(&self.path("run.trace"))
    }

    /// What the scenario said last under this key.
    #[track_caller]
    pub(crate) fn said(&self, key: &str) -> String {
        let said = lookup(self.dir.path(), key);
        said.unwrap_or_else(|| panic!("nothing was said about {key}: {}", self.stderr))
    }

    /// Whether it said anything under it.
    pub(crate) fn has_said(&self, key: &str) -> bool {
        lookup(self.dir.path(), key).is_some()
    }

    /// The same as a number.
    #[track_caller]
    pub(crate) fn number(&self, key: &str) -> u64 {
        self.said(key).parse().expect("a number")
    }

    /// Whether the scenario had what it needs of the machine. If not, that is said, and
    /// fails where `RINGSCOPE_REQUIRE` names the part.
    #[track_caller]
    pub(crate) fn had(&self, part: &str, test: &str) -> bool {
        let Some(why) = lookup(self.dir.path(), LACKING) else { return true };
        let required = env::var("RINGSCOPE_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|it| it == part), "required: {why}");
        // Past the harness, which hides what a passing test prints.
        let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
        false
    }

    /// Names of the files in the scenario's directory that end like this, in order.
    pub(crate) fn files(&self, suffix: &str) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path()).expect("the scene is readable");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<String> =
            names.map(|name| name.to_string_lossy().into_owned()).collect();
        names.retain(|name| name.ends_with(suffix));
        names.sort();
        names
    }
}

fn lookup(dir: &Path, key: &str) -> Option<String> {
    let said = fs::read_to_string(dir.join("said")).ok()?;
    let pairs = said.split('\0').filter_map(|line| line.split_once('\t'));
    pairs.rev().find(|(known, _)| *known == key).map(|(_, value)| value.to_owned())
}

/// Waits for something that another thread or process is about to do.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(60), "waited in vain: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}
