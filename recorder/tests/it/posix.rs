//! The system calls that scenarios need, with nothing around them.

#![allow(unsafe_code)] // plain system calls; each says what it relies on

use std::{
    ffi::CString,
    io,
    os::unix::ffi::OsStrExt,
    path::Path,
    ptr,
    sync::atomic::{AtomicUsize, Ordering},
};
#[cfg(target_os = "linux")]
use std::{fs::File, os::unix::fs::MetadataExt, sync::atomic::AtomicBool};

#[cfg(target_os = "linux")]
use ringscope_format::{VITALS_LENGTH, VITALS_OFFSET};

/// Deaths are part of these tests and not worth a core file each.
pub(crate) fn no_core_files() {
    let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid pointer to a limit.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const limit) };
}

/// No file may grow past this in this process.
pub(crate) fn limit_file_size(bytes: u64) {
    // Only the limit that counts, so that a later call may raise it.
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a valid pointer to a limit.
    unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) };
}

/// From now on this process may open nothing whose number would be this or higher.
pub(crate) fn limit_open_files(most: u64) {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: a valid pointer to a limit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
}

/// From now on this thread, and those that it starts, have one core for all of them.
#[cfg(target_os = "linux")]
pub(crate) fn share_one_core() {
    // SAFETY: all zeros are a set, the empty one, with room for a core that is there; the thread
    // is the calling one.
    unsafe {
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(libc::sched_getcpu() as usize, &mut one);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&one), &raw const one), 0);
    }
}

pub(crate) fn kill(pid: i32, signal: i32) {
    // SAFETY: takes numbers.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0, "kill {pid}");
}

/// Sends a signal to this process.
pub(crate) fn raise(signal: i32) {
    kill(std::process::id() as i32, signal);
}

/// Makes the calling thread, and those that it starts, nicer to others.
pub(crate) fn be_nice(by: i32) {
    // SAFETY: takes numbers; thread 0 is the calling one.
    assert_eq!(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, by) }, 0);
}

/// Stores to an address that nobody has.
pub(crate) fn segfault() -> ! {
    // SAFETY: none; the fault is what is wanted, and nothing is done after it.
    unsafe { ptr::without_provenance_mut::<u8>(8).write_volatile(1) };
    unreachable!("page 0 is never mapped");
}

/// Installs a handler as a program would that knows nothing of us.
pub(crate) fn handle(signal: i32, handler: extern "C" fn(i32)) {
    // SAFETY: a zeroed action is valid; the handler does only what a handler may.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_ONSTACK;
        libc::sigaction(signal, &raw const action, ptr::null_mut());
    }
}

/// Stores to a part of a file's map that wait until they are let go, each in its thread.
#[cfg(target_os = "linux")]
pub(crate) struct HeldStores {
    from: *mut libc::c_void,
    length: usize,
}

#[cfg(target_os = "linux")]
static ONE_WAITS: AtomicBool = AtomicBool::new(false);
#[cfg(target_os = "linux")]
static LET_GO: AtomicBool = AtomicBool::new(false);

/// Holds up, once in a process, whoever stores to the one map of a file from this byte of it on.
#[cfg(target_os = "linux")]
pub(crate) fn hold_stores(file: &Path, from: u64) -> HeldStores {
    extern "C" fn wait(_: i32) {
        ONE_WAITS.store(true, Ordering::Release);
        while !LET_GO.load(Ordering::Acquire) {
            // SAFETY: there is nothing to look at, and it may be called in a handler.
            unsafe { libc::poll(ptr::null_mut(), 0, 1) };
        }
    }
    handle(libc::SIGSEGV, wait);
    // By its number: it may have had another name when it was mapped.
    let inode = std::fs::metadata(file).expect("it is there").ino().to_string();
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux tells");
    let is_its = |map: &&str| map.contains(" rw-s ") && map.split(' ').nth(4) == Some(&inode);
    let map = maps.lines().find(is_its).expect("a map");
    let (start, end) = map.split(' ').next().and_then(|it| it.split_once('-')).expect("a range");
    let address = |text| usize::from_str_radix(text, 16).expect("an address");
    let from = address(start) + from as usize;
    let held =
        HeldStores { from: ptr::with_exposed_provenance_mut(from), length: address(end) - from };
    held.allow(libc::PROT_READ);
    held
}

#[cfg(target_os = "linux")]
impl HeldStores {
    /// Whether somebody waits.
    pub(crate) fn one_waits(&self) -> bool {
        ONE_WAITS.load(Ordering::Acquire)
    }

    pub(crate) fn let_go(self) {
        self.allow(libc::PROT_READ | libc::PROT_WRITE);
        LET_GO.store(true, Ordering::Release);
    }

    fn allow(&self, what: i32) {
        // SAFETY: a part of a map of the recorder, whose reads go on and whose stores wait.
        assert_eq!(unsafe { libc::mprotect(self.from, self.length, what) }, 0, "mprotect");
    }
}

/// What [`handle_before`] found.
static FOUND: AtomicUsize = AtomicUsize::new(0);

/// Installs a handler that first does what was done until now.
pub(crate) fn handle_before(signal: i32, then: extern "C" fn(i32)) {
    type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);
    static THEN: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn both(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: stored below, of these types.
        unsafe {
            let found: Handler = std::mem::transmute(FOUND.load(Ordering::Relaxed));
            found(signal, info, context);
            let then: extern "C" fn(i32) = std::mem::transmute(THEN.load(Ordering::Relaxed));
            then(signal);
        }
    }
    THEN.store(then as *const () as usize, Ordering::Relaxed);
    // SAFETY: as in `handle`.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, ptr::null(), &raw mut action);
        FOUND.store(action.sa_sigaction, Ordering::Relaxed);
        action.sa_sigaction = both as *const () as usize;
        action.sa_flags = libc::SA_ONSTACK | libc::SA_SIGINFO;
        libc::sigaction(signal, &raw const action, ptr::null_mut());
    }
}

/// From now on this signal waits until a thread takes it that is not the calling one, nor any
/// that this starts.
pub(crate) fn put_off(signal: i32) {
    // SAFETY: `sigemptyset` initialises the set; the mask is the calling thread's.
    unsafe {
        let mut set = std::mem::MaybeUninit::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
        assert_eq!(libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), ptr::null_mut()), 0);
    }
}

/// From now on this process gets no more than so many bytes of address space in addition.
#[cfg(target_os = "linux")]
pub(crate) fn limit_more_memory(bytes: Option<u64>) {
    let pages: u64 = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split(' ').next()?.parse().ok())
        .expect("Linux tells");
    let most = bytes.map_or(libc::RLIM_INFINITY, |bytes| pages * 4_096 + bytes);
    let limit = libc::rlimit { rlim_cur: most, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a valid pointer to a limit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
}

/// Ends the process without anything that `exit` does. Safe in a handler.
pub(crate) fn exit_at_once(code: i32) -> ! {
    // SAFETY: takes a number.
    unsafe { libc::_exit(code) }
}

/// The vitals of a file that is being written, to be copied without asking the system for anything.
#[cfg(target_os = "linux")]
pub(crate) fn map_vitals(path: &Path) -> impl Fn() -> [u8; VITALS_LENGTH] + use<> {
    let file = File::open(path).unwrap();
    let mut options = memmap2::MmapOptions::new();
    // SAFETY: nobody makes the file shorter while it is recorded to.
    let map = unsafe { options.offset(VITALS_OFFSET as u64).len(VITALS_LENGTH).map(&file) };
    let map = map.unwrap();
    // SAFETY: as long as an array of bytes; a copy that the drain writes to meanwhile is told by
    // its checksum.
    move || unsafe { map.as_ptr().cast::<[u8; VITALS_LENGTH]>().read_volatile() }
}

/// From now on a system call of the calling thread ends the process by SIGSYS, but for
/// [`exit_at_once`].
#[cfg(target_os = "linux")]
pub(crate) fn no_more_system_calls() {
    const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const SKIP_UNLESS: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, skip, k| libc::sock_filter { code, jt: 0, jf: skip, k };
    // The first word of what a filter is given is the number of the call.
    let mut steps = [
        step(LOAD_WORD, 0, 0),
        step(SKIP_UNLESS, 1, libc::SYS_exit_group as u32),
        step(RETURN, 0, libc::SECCOMP_RET_ALLOW),
        step(RETURN, 0, libc::SECCOMP_RET_KILL_PROCESS),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: numbers, and a program that lives until it has been copied.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program), 0);
    }
}

/// Ends the process by a signal if it is still there after so long.
pub(crate) fn end_after(seconds: u32) {
    // SAFETY: takes a number.
    unsafe { libc::alarm(seconds) };
}

/// Runs `child` in a fork of this process and returns how that ended.
pub(crate) fn in_fork(child: impl FnOnce()) -> i32 {
    // SAFETY: what the child may do is what these tests are about.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", io::Error::last_os_error()),
        0 => {
            child();
            exit_at_once(0);
        }
        pid => {
            let mut status = 0;
            // SAFETY: a valid pointer to a status.
            assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
            status
        }
    }
}

/// Leaves a fork of this process behind that holds on to nothing but what it inherited
/// by itself, and ends after so long.
pub(crate) fn leave_a_fork_behind(seconds: u32) {
    // SAFETY: the child closes what others wait for the end of, sleeps and ends.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", io::Error::last_os_error()),
        0 => {
            for descriptor in 0..3 {
                // SAFETY: takes a number.
                unsafe { libc::close(descriptor) };
            }
            // SAFETY: takes a number.
            unsafe { libc::sleep(seconds) };
            exit_at_once(0);
        }
        _ => {}
    }
}

/// Becomes somebody who may write nowhere. Does nothing if that is so already.
pub(crate) fn give_up_privileges() {
    const NOBODY: u32 = 65_534;
    // SAFETY: takes nothing; takes a number.
    if unsafe { libc::geteuid() } == 0 {
        // SAFETY: as above.
        assert_eq!(unsafe { libc::setuid(NOBODY) }, 0, "setuid");
    }
}

/// Makes a FIFO.
pub(crate) fn make_fifo(at: &Path) {
    let at = CString::new(at.as_os_str().as_bytes()).expect("no zero in it");
    // SAFETY: a text that ends in zero.
    assert_eq!(unsafe { libc::mkfifo(at.as_ptr(), 0o600) }, 0, "mkfifo");
}

/// Mounts an empty file system of this size, for the calling thread and those
/// that it starts alone.
#[cfg(target_os = "linux")]
pub(crate) fn mount_tmpfs(at: &Path, bytes: u64) -> io::Result<()> {
    let done = |result: i32| if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    let at = CString::new(at.as_os_str().as_bytes())?;
    let size = CString::new(format!("size={bytes}"))?;
    // SAFETY: all pointers are to texts that end in zero, or null where that is allowed.
    unsafe {
        done(libc::unshare(libc::CLONE_NEWNS))?;
        let private = libc::MS_REC | libc::MS_PRIVATE;
        done(libc::mount(ptr::null(), c"/".as_ptr(), ptr::null(), private, ptr::null()))?;
        let kind = c"tmpfs".as_ptr();
        done(libc::mount(kind, at.as_ptr(), kind, 0, size.as_ptr().cast()))
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn mount_tmpfs(_: &Path, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// From now on this process can make no hard links, as on a file system that has none.
#[cfg(target_os = "linux")]
pub(crate) fn no_hard_links() {
    const RETURN_EPERM: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let is_equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let answer = (libc::BPF_RET | libc::BPF_K) as u16;
    let line = |code, jt, k| libc::sock_filter { code, jt, jf: 0, k };
    // The call's number is the first word of what the filter sees.
    let mut lines = vec![line(load, 0, 0)];
    #[cfg(target_arch = "x86_64")]
    lines.push(line(is_equal, 2, libc::SYS_link as u32));
    lines.push(line(is_equal, 1, libc::SYS_linkat as u32));
    lines.push(line(answer, 0, libc::SECCOMP_RET_ALLOW));
    lines.push(line(answer, 0, RETURN_EPERM));
    let filter = libc::sock_fprog { len: lines.len() as u16, filter: lines.as_mut_ptr() };
    let (zero, one, mode) = (0 as libc::c_ulong, 1 as libc::c_ulong, libc::SECCOMP_MODE_FILTER);
    // SAFETY: the filter is a valid program of `len` lines for as long as the calls last.
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, one, zero, zero, zero) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::c_ulong::from(mode), &raw const filter) != 0
    };
    assert!(!refused, "{}", std::io::Error::last_os_error());
}
