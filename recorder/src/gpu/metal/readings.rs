//! What a device and the machine say of themselves, once at every interval of readings.
//!
//! Read on the recorder's second thread, never by whoever encodes. Profilers of
//! the same device share one reader. What the system does not tell is left out: a driver
//! without statistics has no utilisation, a Mac without an energy model no power.

use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Instant,
};

use objc2::{
    Message,
    rc::{Retained, autoreleasepool},
    runtime::NSObjectProtocol,
    sel,
};
use objc2_foundation::NSProcessInfo;
use objc2_metal::{MTLDevice, MTLGPUFamily};

use super::{calls::Device, energy::PowerMeter, system};
use crate::{
    Name,
    gpu::{DeviceReader, GpuMemory},
    name,
    vocabulary::{DeviceFound, DeviceMemory, DeviceState},
};

/// Of so many readings, the first tells what the device is.
const FOUND_EVERY: u32 = 60;

/// The readings of one device.
#[derive(Debug)]
pub(super) struct Readings {
    memory: GpuMemory,
    _reader: Option<DeviceReader>,
    _machine: Option<Arc<DeviceReader>>,
}

/// A device that was met; its name is kept for good.
struct Known {
    registry_id: u64,
    name: &'static Name,
    readings: Weak<Readings>,
}

static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());
static MACHINE: Mutex<Weak<DeviceReader>> = Mutex::new(Weak::new());

impl Readings {
    /// Of this device, with what it is called in traces. The number is that of whoever comes
    /// first.
    pub(super) fn of(device: &Device, number: u32) -> (&'static Name, Arc<Self>) {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let registry_id = device.registryID();
        let at = known.iter().position(|known| known.registry_id == registry_id);
        let at = at.unwrap_or_else(|| {
            let name = Name::of(&format!("GPU {number} {}", device.name()));
            known.push(Known { registry_id, name, readings: Weak::new() });
            known.len() - 1
        });
        let known = &mut known[at];
        let readings = known.readings.upgrade().unwrap_or_else(|| {
            let readings = Arc::new(Self::begin(device, known.name));
            known.readings = Arc::downgrade(&readings);
            readings
        });
        (known.name, readings)
    }

    fn begin(device: &Device, name: &'static Name) -> Self {
        let limit = Some(device.recommendedMaxWorkingSetSize()).filter(|&bytes| bytes > 0);
        let memory = GpuMemory::of(name.text(), limit);
        if cfg!(feature = "off") {
            return Self { memory, _reader: None, _machine: None };
        }
        let mut reading = Reading {
            device: device.retain(),
            name,
            limit,
            is_apple: is_of(device, MTLGPUFamily::Apple1),
            begun: Instant::now(),
            meter: PowerMeter::default(),
            taken: 0,
        };
        let reader = DeviceReader::register(move || autoreleasepool(|_| reading.take()));
        Self { memory, _reader: Some(reader), _machine: Some(machine()) }
    }

    pub(super) fn memory(&self) -> &GpuMemory {
        &self.memory
    }
}

struct Reading {
    device: Retained<Device>,
    name: &'static Name,
    limit: Option<u64>,
    /// Made by Apple: the GPU whose energy the system counts.
    is_apple: bool,
    begun: Instant,
    meter: PowerMeter,
    taken: u32,
}

impl Reading {
    fn take(&mut self) {
        if self.taken.is_multiple_of(FOUND_EVERY) {
            let found = DeviceFound::new().device(self.name).backend(name!("metal"));
            let found = match family(&self.device) {
                Some(family) => found.family(family),
                None => found,
            };
            found.unified(is_unified(&self.device)).total(self.limit).record();
        }
        self.taken = self.taken.wrapping_add(1);
        // What is left of the limit is not free: other processes have theirs.
        let allocated = self.device.currentAllocatedSize();
        DeviceMemory::new().device(self.name).allocated(allocated).total(self.limit).record();
        let driver = system::accelerator_statistics(self.device.registryID()).unwrap_or_default();
        let joules = if self.is_apple { system::gpu_energy() } else { None };
        let watts = joules.and_then(|joules| self.meter.watts(self.begun.elapsed(), joules));
        DeviceState::new()
            .device(self.name)
            .utilization_percent(driver.utilization_percent)
            .memory_in_use(driver.memory_in_use)
            .power_watts(watts.or(driver.power_watts))
            .temperature_celsius(driver.temperature_celsius)
            .resets(driver.recoveries)
            .record();
    }
}

/// The reader of what is the same for all devices.
fn machine() -> Arc<DeviceReader> {
    let mut machine = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    machine.upgrade().unwrap_or_else(|| {
        let reader = DeviceReader::register(|| autoreleasepool(|_| read_machine()));
        let reader = Arc::new(reader);
        *machine = Arc::downgrade(&reader);
        reader
    })
}

fn read_machine() {
    let process = NSProcessInfo::processInfo();
    let thermal = process
        .respondsToSelector(sel!(thermalState))
        .then(|| u64::try_from(process.thermalState().0).ok())
        .flatten();
    // macOS 12.
    let low_power = process
        .respondsToSelector(sel!(isLowPowerModeEnabled))
        .then(|| process.isLowPowerModeEnabled());
    DeviceState::new().thermal_state(thermal).low_power(low_power).record();
}

/// macOS 10.15.
fn is_unified(device: &Device) -> Option<bool> {
    device.respondsToSelector(sel!(hasUnifiedMemory)).then(|| device.hasUnifiedMemory())
}

/// macOS 10.15.
fn is_of(device: &Device, family: MTLGPUFamily) -> bool {
    device.respondsToSelector(sel!(supportsFamily:)) && device.supportsFamily(family)
}

/// The newest family that the device is of. One that is newer than any here is called by the
/// newest that is.
fn family(device: &Device) -> Option<&'static Name> {
    static FAMILIES: [(MTLGPUFamily, Name); 11] = [
        (MTLGPUFamily::Apple10, Name::new("Apple 10")),
        (MTLGPUFamily::Apple9, Name::new("Apple 9")),
        (MTLGPUFamily::Apple8, Name::new("Apple 8")),
        (MTLGPUFamily::Apple7, Name::new("Apple 7")),
        (MTLGPUFamily::Apple6, Name::new("Apple 6")),
        (MTLGPUFamily::Apple5, Name::new("Apple 5")),
        (MTLGPUFamily::Apple4, Name::new("Apple 4")),
        (MTLGPUFamily::Apple3, Name::new("Apple 3")),
        (MTLGPUFamily::Apple2, Name::new("Apple 2")),
        (MTLGPUFamily::Apple1, Name::new("Apple 1")),
        (MTLGPUFamily::Mac2, Name::new("Mac 2")),
    ];
    FAMILIES.iter().find(|(family, _)| is_of(device, *family)).map(|(_, name)| name)
}
