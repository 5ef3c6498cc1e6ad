//! What macOS knows of its GPUs beside Metal: the registry of drivers, and the
//! energy model behind the private library IOReport.
//!
//! **Unchecked here:** C functions that give away objects, each wrapped at once in
//! what releases it; casts of Core Foundation's collections to what they hold; and
//! functions of IOReport, looked up by name. Its signatures are not documented. They
//! are those that public tools have used since macOS 11; if the library or one of its functions is
//! gone, there is no power in the trace, and nothing else is lost.

#![allow(unsafe_code)]

use std::{
    ffi::{CStr, c_void},
    ptr::{self, NonNull},
    sync::{LazyLock, Mutex, PoisonError},
};

use objc2_core_foundation::{
    CFArray, CFDictionary, CFMutableDictionary, CFNumber, CFRetained, CFString, CFType,
};
use objc2_io_kit::{
    IOIteratorNext, IOObjectRelease, IORegistryEntryCreateCFProperty, IORegistryEntryIDMatching,
    IOServiceGetMatchingService, IOServiceGetMatchingServices, IOServiceMatching, io_object_t,
};

use super::{accelerator::AcceleratorStatistics, energy::gpu_joules};

/// The system's own port to the registry; a synonym for none, by its documentation.
const MAIN_PORT: libc::mach_port_t = 0;

/// An object of the registry; released when dropped.
struct Entry(io_object_t);

impl Entry {
    fn new(object: io_object_t) -> Option<Self> {
        (object != 0).then_some(Self(object))
    }

    fn statistics(&self) -> Option<AcceleratorStatistics> {
        let key = CFString::from_static_str("PerformanceStatistics");
        // SAFETY: the entry is alive; no allocator means the default one.
        let property = unsafe { IORegistryEntryCreateCFProperty(self.0, Some(&key), None, 0) }?;
        let dictionary = property.downcast::<CFDictionary>().ok()?;
        // SAFETY: a dictionary made from the registry's has symbols for keys, which become
        // strings, and objects for values: the registry has nothing else.
        let dictionary =
            unsafe { CFRetained::cast_unchecked::<CFDictionary<CFString, CFType>>(dictionary) };
        let mut statistics = AcceleratorStatistics::default();
        let (keys, values) = dictionary.to_vecs();
        for (key, value) in keys.iter().zip(&values) {
            if let Some(number) = value.downcast_ref::<CFNumber>().and_then(CFNumber::as_f64) {
                statistics.add(&key.to_string(), number);
            }
        }
        Some(statistics)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        IOObjectRelease(self.0);
    }
}

/// What the driver says of the device with this `registryID`. Where that entry says
/// nothing and there is one accelerator only, it is that one's.
pub(super) fn accelerator_statistics(registry_id: u64) -> Option<AcceleratorStatistics> {
    // SAFETY: the first gives away a dictionary that says what to look for, which is what the
    // second takes, and releases. A mutable dictionary is a dictionary.
    let own = unsafe {
        let matching = IORegistryEntryIDMatching(registry_id)?;
        let matching = CFRetained::cast_unchecked::<CFDictionary>(matching);
        Entry::new(IOServiceGetMatchingService(MAIN_PORT, Some(matching)))
    };
    own.and_then(|entry| entry.statistics()).or_else(only_accelerator)
}

fn only_accelerator() -> Option<AcceleratorStatistics> {
    let mut iterator = 0;
    // SAFETY: as above; the name is a C string, and the iterator is written to a local.
    let result = unsafe {
        let matching = IOServiceMatching(c"IOAccelerator".as_ptr())?;
        let matching = CFRetained::cast_unchecked::<CFDictionary>(matching);
        IOServiceGetMatchingServices(MAIN_PORT, Some(matching), &raw mut iterator)
    };
    let iterator = Entry::new(iterator).filter(|_| result == 0)?;
    let next = || Entry::new(IOIteratorNext(iterator.0));
    let only = next()?;
    if next().is_some() { None } else { only.statistics() }
}

type CopyChannels = unsafe extern "C" fn(
    group: *const CFString,
    subgroup: *const CFString,
    u64,
    u64,
    u64,
) -> *mut CFMutableDictionary;
type CreateSubscription = unsafe extern "C" fn(
    *const c_void,
    channels: *const CFMutableDictionary,
    subscribed: *mut *mut CFMutableDictionary,
    u64,
    *const CFType,
) -> *mut c_void;
type CreateSamples = unsafe extern "C" fn(
    subscription: *mut c_void,
    channels: *const CFMutableDictionary,
    *const CFType,
) -> *mut CFDictionary;
type ChannelText = unsafe extern "C" fn(channel: *const CFDictionary) -> *const CFString;
type SimpleValue = unsafe extern "C" fn(channel: *const CFDictionary, index: i32) -> i64;

/// The channels of the system's energy model.
struct EnergyModel {
    subscription: NonNull<c_void>,
    channels: CFRetained<CFMutableDictionary>,
    create_samples: CreateSamples,
    channel_name: ChannelText,
    unit: ChannelText,
    value: SimpleValue,
}

// SAFETY: Core Foundation's objects and the subscription may be used on any thread,
// one at a time: it is only ever reached through the mutex below.
unsafe impl Send for EnergyModel {}

/// Opened once a process and never closed: who owns what of it is not documented.
static ENERGY: LazyLock<Option<Mutex<EnergyModel>>> =
    LazyLock::new(|| EnergyModel::open().map(Mutex::new));

/// Joules that the GPU has used since some moment; `None` where nobody counts them,
/// as on Intel's Macs.
pub(super) fn gpu_energy() -> Option<f64> {
    ENERGY.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner).gpu_joules()
}

impl EnergyModel {
    fn open() -> Option<Self> {
        // SAFETY: the path is a C string. The library is a part of the system, whose
        // initialisers do nothing to us; it is never unloaded.
        let library = unsafe {
            libc::dlopen(c"/usr/lib/libIOReport.dylib".as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL)
        };
        let library = NonNull::new(library)?;
        // SAFETY: each name with the type of its function, as far as they are known: see above.
        let (copy_channels, create_subscription, create_samples, channel_name, unit, value) = unsafe {
            (
                function::<CopyChannels>(library, c"IOReportCopyChannelsInGroup")?,
                function::<CreateSubscription>(library, c"IOReportCreateSubscription")?,
                function::<CreateSamples>(library, c"IOReportCreateSamples")?,
                function::<ChannelText>(library, c"IOReportChannelGetChannelName")?,
                function::<ChannelText>(library, c"IOReportChannelGetUnitLabel")?,
                function::<SimpleValue>(library, c"IOReportSimpleGetIntegerValue")?,
            )
        };
        let group = CFString::from_static_str("Energy Model");
        // SAFETY: the group is alive during the call, no subgroup means all; what is
        // returned is ours, as the name of the function has it.
        let found = unsafe {
            let channels = copy_channels(&raw const *group, ptr::null(), 0, 0, 0);
            CFRetained::from_raw(NonNull::new(channels)?)
        };
        // SAFETY: a copy of a dictionary that nobody else has.
        let channels = unsafe { CFMutableDictionary::new_copy(None, 0, Some(&found)) }?;
        let mut subscribed = ptr::null_mut();
        // SAFETY: the channels are alive and mutable, the result is written to a local.
        let subscription = unsafe {
            create_subscription(
                ptr::null(),
                &raw const *channels,
                &raw mut subscribed,
                0,
                ptr::null(),
            )
        };
        let subscription = NonNull::new(subscription)?;
        Some(Self { subscription, channels, create_samples, channel_name, unit, value })
    }

    fn gpu_joules(&self) -> Option<f64> {
        // SAFETY: both were made for each other in `open`; what is returned is ours.
        let samples = unsafe {
            let samples = (self.create_samples)(
                self.subscription.as_ptr(),
                &raw const *self.channels,
                ptr::null(),
            );
            CFRetained::from_raw(NonNull::new(samples)?)
        };
        // SAFETY: keys are strings; what the values are is asked below.
        let samples =
            unsafe { CFRetained::cast_unchecked::<CFDictionary<CFString, CFType>>(samples) };
        let list = samples.get(&CFString::from_static_str("IOReportChannels"))?;
        let list = list.downcast::<CFArray>().ok()?;
        // SAFETY: an array of Core Foundation's objects, whose type is asked below.
        let list = unsafe { CFRetained::cast_unchecked::<CFArray<CFType>>(list) };
        let joules = list.iter().filter_map(|channel| self.channel_joules(&channel));
        joules.reduce(|sum, more| sum + more)
    }

    fn channel_joules(&self, channel: &CFType) -> Option<f64> {
        let channel: *const CFDictionary = channel.downcast_ref::<CFDictionary>()?;
        // SAFETY: a channel of a sample that is alive. The texts are the channel's, alive as
        // long as it is.
        unsafe {
            let name = (self.channel_name)(channel).as_ref()?.to_string();
            let unit = (self.unit)(channel).as_ref()?.to_string();
            gpu_joules(&name, &unit, (self.value)(channel, 0))
        }
    }
}

/// A function of a library.
///
/// # Safety
///
/// `F` is the type of the function of this name: a function pointer.
unsafe fn function<F: Copy>(library: NonNull<c_void>, name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: a library that is open, and a C string.
    let address = NonNull::new(unsafe { libc::dlsym(library.as_ptr(), name.as_ptr()) })?;
    // SAFETY: as large as a pointer, by the assertion; of this type, by our caller.
    Some(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&address.as_ptr()) })
}
