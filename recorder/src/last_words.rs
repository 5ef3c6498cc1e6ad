//! What happens when the process dies: panics, fatal signals, exit, fork.
//!
//! A signal handler may interrupt anything, so the one here only loads and
//! stores atomics, sleeps (`nanosleep` is on POSIX's list of what a handler may
//! call) and hands over to the handler that was there before. The work is done
//! by the drain, which is running anyway: it sees the request, takes one last
//! pass over the rings, and answers.
//!
//! | death | what is done |
//! |---|---|
//! | panic | the panic is recorded as an error, the rings are flushed |
//! | SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT | the rings are flushed, then the signal takes its course |
//! | `exit`, return from `main` | the recording is finished |
//! | SIGKILL, out of memory | nothing can be done; the file is complete up to the last tick |
//! | `fork` | the child's spans are switched off; the map does not exist there; ids are drawn anew |

#![allow(unsafe_code)] // sigaction, atexit, pthread_atfork

use std::{
    mem::MaybeUninit,
    ptr,
    sync::{
        Once, OnceLock,
        atomic::{
            AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicUsize,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    time::{Duration, Instant},
};

use crate::{
    hot::{call_site, clock, random_ids},
    rendezvous::Rendezvous,
};

/// How long a dying thread waits for the drain's last pass. While something is
/// recorded the drain looks every few milliseconds, else at its idle tick; but its first
/// store to a page of the file may have to wait for a disk that is busy, for some 100 ms.
const LAST_PASS: Duration = Duration::from_secs(1);

const FATAL: [i32; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT];

/// The process that records; 0 if none does. A forked child differs from it.
static PID: AtomicU32 = AtomicU32::new(0);
/// The fatal signal that arrived, once one has.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
/// Whether SIGABRT goes past us, because another fatal signal is being passed on.
static ASIDE: AtomicBool = AtomicBool::new(false);
/// Whether handlers should act at all.
static ARMED: AtomicBool = AtomicBool::new(false);
/// The signal that asks for a dump, and how often it has come.
static DUMP_SIGNAL: AtomicI32 = AtomicI32::new(0);
static DUMPS_ASKED: AtomicU32 = AtomicU32::new(0);
/// Set when another process truncated the file under the map.
static TRUNCATED: AtomicBool = AtomicBool::new(false);
/// The files that are being written.
static FILES: [OpenFile; 4] = [const { OpenFile::new() }; 4];
/// Kernel ids of the recorder's threads, which must not wait for themselves.
static OWN_THREADS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
/// What is done with a signal after us, by its number.
static PREVIOUS: [AtomicPtr<Previous>; 65] = [const { AtomicPtr::new(ptr::null_mut()) }; 65];
/// Threads that pass a signal on. More than that at once are not told apart.
static PASSING: [Passing; 16] = [const { Passing::new() }; 16];

/// A signal that is being passed on. Its thread alone touches it, once it has the place.
struct Passing {
    /// 0 if the place is free.
    thread: AtomicUsize,
    signal: AtomicI32,
    /// How far down the handlers before us it has come, and where on the stack that was.
    depth: AtomicUsize,
    frame: AtomicUsize,
}

impl Passing {
    const fn new() -> Self {
        Self {
            thread: AtomicUsize::new(0),
            signal: AtomicI32::new(0),
            depth: AtomicUsize::new(0),
            frame: AtomicUsize::new(0),
        }
    }

    /// The place of this signal on this thread, and how far down it is to go next.
    fn enter(thread: usize, signal: i32, frame: usize) -> Option<(&'static Self, usize)> {
        let is_ours =
            |it: &&Self| it.thread.load(Relaxed) == thread && it.signal.load(Relaxed) == signal;
        let claim = |it: &&Self| it.thread.compare_exchange(0, thread, Relaxed, Relaxed).is_ok();
        let known = PASSING.iter().find(is_ours);
        let place = known.or_else(|| PASSING.iter().find(claim))?;
        // A handler that we have called and that calls us is further along the stack. One
        // that is not has jumped out of its handler, and this is another signal.
        let is_within = known.is_some() && frame < place.frame.load(Relaxed);
        let down = if is_within { place.depth.load(Relaxed) + 1 } else { 0 };
        place.signal.store(signal, Relaxed);
        place.depth.store(down, Relaxed);
        place.frame.store(frame, Relaxed);
        Some((place, down))
    }

    /// Done with what was entered at this depth.
    fn leave(&self, down: usize, frame: usize) {
        if down > 0 {
            self.depth.store(down - 1, Relaxed);
            // Anything but below the frame of whoever called; that one calls again from there.
            self.frame.store(frame.saturating_add(1), Relaxed);
        } else {
            self.signal.store(0, Relaxed);
            self.thread.store(0, Relaxed);
        }
    }
}

/// A handler that we found in place of ours as a recording began. Never freed: a handler
/// may be about to look at it.
struct Previous {
    action: libc::sigaction,
    /// What we passed on to until then.
    before: Option<&'static Previous>,
}

fn previous(signal: i32) -> Option<&'static Previous> {
    let newest = PREVIOUS.get(signal as usize)?.load(Acquire);
    // SAFETY: null, or a box that `install` leaked.
    unsafe { newest.as_ref() }
}

/// A file that is being written, as handlers know it.
struct OpenFile {
    /// Address and length of its map, so that the SIGBUS handler knows a fault of
    /// ours from one of the program's. Address 0: no file.
    map: AtomicUsize,
    length: AtomicUsize,
    descriptor: AtomicI32,
}

impl OpenFile {
    const fn new() -> Self {
        Self {
            map: AtomicUsize::new(0),
            length: AtomicUsize::new(0),
            descriptor: AtomicI32::new(-1),
        }
    }
}

/// Where passes are asked for. One for the process, so that a handler can reach it.
static RENDEZVOUS: OnceLock<Rendezvous> = OnceLock::new();

pub(crate) fn rendezvous() -> &'static Rendezvous {
    RENDEZVOUS.get_or_init(Rendezvous::new)
}

/// The fatal signal that the process is dying of.
pub(crate) fn fatal_signal() -> Option<u8> {
    match SIGNAL.load(Acquire) {
        0 => None,
        signal => Some(signal as u8),
    }
}

/// The process has survived its signal.
pub(crate) fn forget_signal() {
    SIGNAL.store(0, Release);
    if ASIDE.swap(false, Relaxed) {
        set_handler(libc::SIGABRT, on_fatal_signal);
    }
}

/// How many dumps have been asked for by signal.
pub(crate) fn dumps_asked() -> u32 {
    DUMPS_ASKED.load(Relaxed)
}

/// Whether the file was truncated under the map.
pub(crate) fn file_was_truncated() -> bool {
    TRUNCATED.load(Acquire)
}

/// The file turned out to be truncated before any store to it failed.
pub(crate) fn note_truncation() {
    TRUNCATED.store(true, Release);
}

/// Whether this is the process that started recording, not a fork of it.
pub(crate) fn is_recording_process() -> bool {
    PID.load(Relaxed) == std::process::id()
}

pub(crate) fn watch(map: usize, length: usize, descriptor: i32) {
    if let Some(file) = FILES.iter().find(|file| file.map.load(Relaxed) == 0) {
        file.length.store(length, Relaxed);
        file.descriptor.store(descriptor, Relaxed);
        file.map.store(map, Release);
    }
}

pub(crate) fn unwatch(map: usize) {
    for file in FILES.iter().filter(|file| file.map.load(Relaxed) == map) {
        file.descriptor.store(-1, Relaxed);
        file.map.store(0, Release);
    }
}

/// Called by the drain (0) and the sealer (1) as they start, with all [signals held](hold_signals).
///
/// Signals are for the program's threads: a handler of the program never runs on these two, a
/// write past the file-size limit is an error code here and not a SIGXFSZ, and a fatal signal that
/// somebody sends comes to a thread that can wait for the last pass. Two are left, which hardly
/// anybody sends: the SIGBUS of a file that was truncated is ours to handle, and of a SIGSEGV whoever
/// handles those can say more than the system.
pub(crate) fn this_is_own_thread(which: usize) {
    OWN_THREADS[which].store(thread_id(), Relaxed);
    let mut set = every_signal();
    // SAFETY: a valid set; the mask is the calling thread's.
    unsafe {
        libc::sigdelset(&raw mut set, libc::SIGBUS);
        libc::sigdelset(&raw mut set, libc::SIGSEGV);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const set, ptr::null_mut());
    }
}

/// Signals do not come to the calling thread until this is dropped, nor to a thread that it starts
/// meanwhile until that says otherwise.
pub(crate) struct HeldSignals(libc::sigset_t);

pub(crate) fn hold_signals() -> HeldSignals {
    let (every, mut before) = (every_signal(), MaybeUninit::uninit());
    // SAFETY: valid pointers; the call fills in the mask that there was.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const every, before.as_mut_ptr());
        HeldSignals(before.assume_init())
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        // SAFETY: a mask that this thread had.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) };
    }
}

fn every_signal() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `sigfillset` initialises the set.
    unsafe {
        libc::sigfillset(set.as_mut_ptr());
        set.assume_init()
    }
}

fn thread_id() -> usize {
    // SAFETY: takes nothing, cannot fail, and is safe in a handler.
    unsafe { libc::pthread_self() as usize }
}

/// Gets ready for the death of a process that starts to record.
pub(crate) fn arm(fatal_signals: bool, dump_signal: Option<i32>) {
    rendezvous();
    TRUNCATED.store(false, Relaxed);
    SIGNAL.store(0, Relaxed);
    PID.store(std::process::id(), Relaxed);
    ARMED.store(fatal_signals, Release);
    if fatal_signals {
        FATAL.into_iter().for_each(|signal| install(signal, on_fatal_signal));
        forget_signal();
    }
    if let Some(signal) =
        dump_signal.filter(|signal| (1..65).contains(signal) && !FATAL.contains(signal))
    {
        DUMP_SIGNAL.store(signal, Relaxed);
        install(signal, on_dump_signal);
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: a plain function that lives for ever; the call only registers it.
        unsafe { libc::atexit(on_exit) };
        hear_of_forks();
    });
}

/// Does what a forked child needs, from now on. Asked for twice it is done twice, and does no harm.
pub(crate) fn hear_of_forks() {
    // SAFETY: a plain function that lives for ever; the call only registers it.
    unsafe { libc::pthread_atfork(None, None, Some(in_forked_child)) };
}

/// The drain has ended. A fault of ours in the map is still rescued.
pub(crate) fn stop_waiting() {
    ARMED.store(false, Release);
}

/// The recording is over; handlers stay in place and only pass on.
pub(crate) fn disarm() {
    stop_waiting();
    DUMP_SIGNAL.store(0, Relaxed);
    PID.store(0, Relaxed);
}

type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

/// Puts our handler in place, before whatever the program has there by now.
fn install(signal: i32, handler: Handler) {
    // SAFETY: a zeroed action is a valid one; asking changes nothing.
    let there = unsafe {
        let mut there: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, ptr::null(), &raw mut there);
        there
    };
    if there.sa_sigaction == handler as *const () as usize {
        return;
    }
    let before = previous(signal);
    // A program that puts the same one there for every recording adds nothing.
    let what = |action: &libc::sigaction| (action.sa_sigaction, action.sa_flags);
    if before.is_none_or(|known| what(&known.action) != what(&there)) {
        let newest = Box::leak(Box::new(Previous { action: there, before }));
        PREVIOUS[signal as usize].store(newest, Release);
    }
    set_handler(signal, handler);
}

fn set_handler(signal: i32, handler: Handler) {
    // SAFETY: a zeroed sigaction is a valid one; the pointers are valid; the
    // handler is of the SA_SIGINFO form and does only what a handler may.
    unsafe {
        let mut new: libc::sigaction = std::mem::zeroed();
        new.sa_sigaction = handler as *const () as usize;
        // On the alternate stack, which Rust's threads have: the reason may
        // be that the ordinary one has overflowed.
        new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigemptyset(&raw mut new.sa_mask);
        libc::sigaction(signal, &raw const new, ptr::null_mut());
    }
}

/// Lets an `abort` go past us in which whoever comes next may end this fault, as std does
/// after a stack overflow. The rings are flushed, and the alternate stack has no room for a
/// second frame where those are large (AVX-512).
fn step_aside() {
    if let Some(previous) = previous(libc::SIGABRT) {
        ASIDE.store(true, Relaxed);
        // SAFETY: a valid action, the one that was there before ours.
        unsafe { libc::sigaction(libc::SIGABRT, &raw const previous.action, ptr::null_mut()) };
    }
}

extern "C" fn on_fatal_signal(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    if signal == libc::SIGBUS && is_recording_process() && rescue_map(info) {
        return;
    }
    if ARMED.load(Acquire) && is_recording_process() && !is_own_thread() {
        SIGNAL.store(signal, Release);
        if let Some(rendezvous) = RENDEZVOUS.get() {
            let ticket = rendezvous.ask();
            wait_in_handler(|| rendezvous.is_done(ticket));
        }
        if signal != libc::SIGABRT {
            step_aside();
        }
    }
    pass_on(signal, info, context);
}

extern "C" fn on_dump_signal(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    if DUMP_SIGNAL.load(Relaxed) == signal {
        DUMPS_ASKED.fetch_add(1, Relaxed);
    }
    pass_on(signal, info, context);
}

/// Whether this is one of the recorder's own two threads.
pub(crate) fn is_own_thread() -> bool {
    let this = thread_id();
    OWN_THREADS.iter().any(|thread| thread.load(Relaxed) == this)
}

/// Waits in a handler, up to [`LAST_PASS`]: looks at the clock, sleeps and loads, no more.
fn wait_in_handler(done: impl Fn() -> bool) {
    let pause = libc::timespec { tv_sec: 0, tv_nsec: 200_000 };
    // SAFETY: the address of this thread's `errno`, which the interrupted code may
    // be about to read.
    let errno = unsafe { *errno() };
    let until = clock::monotonic_ns().saturating_add(LAST_PASS.as_nanos() as i64);
    while !done() && clock::monotonic_ns() < until {
        // SAFETY: a valid timespec; the remainder is not asked for.
        unsafe { libc::nanosleep(&raw const pause, ptr::null_mut()) };
    }
    // SAFETY: as above.
    unsafe { *self::errno() = errno };
}

#[cfg(not(target_os = "macos"))]
use libc::__errno_location as errno;
#[cfg(target_os = "macos")]
use libc::__error as errno;

/// If the fault is a store of ours to a page that the file no longer has, puts
/// plain memory there, so that the store succeeds and the program goes on.
fn rescue_map(info: *mut libc::siginfo_t) -> bool {
    // SAFETY: the kernel passes a valid siginfo, and SIGBUS fills in the address.
    let address = unsafe { (*info).si_addr() } as usize;
    for file in &FILES {
        let (start, length) = (file.map.load(Acquire), file.length.load(Relaxed));
        if start == 0 || !(start..start + length).contains(&address) {
            continue;
        }
        // SAFETY: replaces exactly our own map, which only our own threads touch.
        // `mmap` is a bare system call in every libc this runs on.
        let plain = unsafe {
            libc::mmap(
                start as *mut libc::c_void,
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        TRUNCATED.store(true, Release);
        return plain != libc::MAP_FAILED;
    }
    false
}

/// Lets the signal take the course it would have taken without us.
fn pass_on(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let Some(newest) = previous(signal) else { return };
    if newest.before.is_none() {
        return pass_on_to(&newest.action, signal, info, context);
    }
    // One that came after us may call us as the one before it. Then it is passed to who was
    // there before it, not to it again for ever.
    let frame = (&raw const newest).addr();
    let passing = Passing::enter(thread_id(), signal, frame);
    let mut chain = std::iter::successors(Some(newest), |previous| previous.before);
    let next = match passing {
        Some((_, down)) => chain.take(down + 1).last(),
        None => chain.find(|previous| previous.before.is_none()),
    };
    if let Some(previous) = next {
        pass_on_to(&previous.action, signal, info, context);
    }
    if let Some((passing, down)) = passing {
        passing.leave(down, frame);
    }
}

fn pass_on_to(
    previous: &libc::sigaction,
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel passes a valid siginfo.
    let is_fault = FATAL.contains(&signal) && unsafe { (*info).si_code } > 0;
    match previous.sa_sigaction {
        // The kernel does not let a fault be ignored; neither must we, for ever.
        libc::SIG_IGN if !is_fault => {}
        libc::SIG_DFL | libc::SIG_IGN if FATAL.contains(&signal) => {
            // SAFETY: a zeroed action with SIG_DFL is valid; the kernel passes a
            // valid siginfo. A fault (positive code) happens again on return and
            // then ends the process as it should; one that was sent (`abort`,
            // `kill`) has to be sent again.
            unsafe {
                let mut default: libc::sigaction = std::mem::zeroed();
                default.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &raw const default, ptr::null_mut());
                if !is_fault {
                    libc::raise(signal);
                }
            }
        }
        // A signal that only asks for a dump must not do what it did by default: end the program.
        libc::SIG_DFL | libc::SIG_IGN => {}
        handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: installed by someone as a handler of this form.
            let handler: Handler = unsafe { std::mem::transmute(handler as *const ()) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: installed by someone as a handler of this form.
            let handler: extern "C" fn(i32) = unsafe { std::mem::transmute(handler as *const ()) };
            handler(signal);
        }
    }
}

extern "C" fn on_exit() {
    if is_recording_process() {
        crate::recorder::finish_at_exit();
    }
}

/// The drain does not exist here. Takes no lock: the thread that held it may not exist either.
extern "C" fn in_forked_child() {
    random_ids::count_fork();
    if PID.load(Relaxed) == 0 {
        return;
    }
    call_site::switch_off_for_good();
    ARMED.store(false, Relaxed);
    for file in &FILES {
        let descriptor = file.descriptor.swap(-1, Relaxed);
        if descriptor >= 0 {
            // A child that outlives its parent would go on locking the parent's file.
            // SAFETY: closes a descriptor that the recorder opened. In this process nobody
            // uses or closes it again: the threads whose it was do not exist here, and the
            // static that also leads to it is never dropped.
            unsafe { libc::close(descriptor) };
        }
    }
}

thread_local! {
    /// Whether panics of this thread are somebody else's business.
    static UNRECORDED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// For the threads of exporters: their panics are theirs, and not the program's.
#[cfg(feature = "exporters")]
pub(crate) fn panics_here_are_not_recorded() {
    UNRECORDED.set(true);
}

/// Records panics from now on, beside what the program does about them.
pub(crate) fn hook_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !UNRECORDED.get() && is_recording_process() && crate::recorder::records_panics() {
                record_panic(info);
            }
            previous(info);
        }));
    });
}

fn record_panic(info: &std::panic::PanicHookInfo<'_>) {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let message = text.unwrap_or("(not a text)");
    let (file, line) = info.location().map_or(("", 0), |at| (at.file(), at.line()));
    crate::error!("panic", message = message, file = file, line = line);
    crate::recorder::after_panic();
}

/// Waits for a pass, outside of handlers. Returns whether it came in time.
pub(crate) fn wait_for(done: impl Fn() -> bool, at_most: Duration) -> bool {
    let begun = Instant::now();
    while !done() {
        if begun.elapsed() > at_most {
            return false;
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    true
}

/// `RINGSCOPE_CRASH_AT=STEP:N` kills the process when it comes to this step for
/// the N-th time; with `:panic` behind it, only the thread panics. Debug builds only.
#[cfg(debug_assertions)]
pub(crate) fn crash_if_asked(step: &str) {
    static PLAN: OnceLock<Option<(String, u32, bool)>> = OnceLock::new();
    static PASSED: AtomicU32 = AtomicU32::new(0);
    let plan = PLAN.get_or_init(|| {
        let plan = std::env::var("RINGSCOPE_CRASH_AT").ok()?;
        let (step, times) = plan.split_once(':')?;
        let (times, panics) = times.strip_suffix(":panic").map_or((times, false), |it| (it, true));
        Some((step.to_owned(), times.parse().ok()?, panics))
    });
    if let Some((at, times, panics)) = plan
        && at == step
        && PASSED.fetch_add(1, Relaxed) + 1 == *times
    {
        assert!(!panics, "asked for by RINGSCOPE_CRASH_AT");
        // SAFETY: sends a signal to this process, which does not survive it.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
}
