//! A small compute pipeline on a Metal device, recorded: matmul, softmax, rmsnorm.
//!
//!     cargo run --release -p ringscope --features metal --example metal_pipeline -- run.trace
//!     analyze kernels run.trace
//!
//! Kernels are submitted in every way that the profiler knows: one command buffer each,
//! many in one, in command buffers and passes that the program made, in a wrapper of its own. It
//! makes every call that the profiler has, and a test looks after that.

fn main() -> std::process::ExitCode {
    match run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("metal_pipeline: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(not(target_os = "macos"))]
fn run() -> Result<(), Box<dyn std::error::Error>> {
    Err("needs macOS: there is no Metal on this system".into())
}

#[cfg(target_os = "macos")]
use metal::run;

#[cfg(target_os = "macos")]
mod metal {
    #![allow(unsafe_code)] // buffers of a device: their contents, and their places in a kernel

    use std::{error::Error, time::Duration};

    use objc2::{
        rc::{Retained, autoreleasepool},
        runtime::ProtocolObject,
    };
    use objc2_foundation::{NSRange, NSString};
    use objc2_metal::{
        MTLBlitCommandEncoder, MTLBuffer, MTLCommandBuffer, MTLCommandEncoder, MTLCommandQueue,
        MTLComputeCommandEncoder, MTLComputePipelineState, MTLCreateSystemDefaultDevice, MTLDevice,
        MTLDispatchType, MTLLibrary, MTLResourceOptions, MTLSize,
    };
    use ringscope::{
        Recorder,
        gpu::{
            Allocation, Direction, Work,
            metal::{CommandBufferWrapper, GpuProfiler},
        },
        span,
    };

    type Buffer = Retained<ProtocolObject<dyn MTLBuffer>>;
    type Kernel = Retained<ProtocolObject<dyn MTLComputePipelineState>>;
    type Encoder = ProtocolObject<dyn MTLComputeCommandEncoder>;

    /// Rows and columns of the matrices.
    const SIDE: usize = 512;
    const BYTES: usize = SIDE * SIDE * size_of::<f32>();
    const ROUNDS: usize = 20;

    const SOURCE: &str = "
        #include <metal_stdlib>
        using namespace metal;
        constant uint SIDE = 512;

        kernel void matmul(device const float* a [[buffer(0)]], device const float* b [[buffer(1)]],
                           device float* out [[buffer(2)]], uint2 at [[thread_position_in_grid]]) {
            float sum = 0;
            for (uint k = 0; k < SIDE; k++) sum += a[at.y * SIDE + k] * b[k * SIDE + at.x];
            out[at.y * SIDE + at.x] = sum;
        }

        kernel void softmax(device const float* in [[buffer(0)]], device float* out [[buffer(2)]],
                            uint row [[thread_position_in_grid]]) {
            device const float* from = in + row * SIDE;
            float most = from[0], sum = 0;
            for (uint i = 1; i < SIDE; i++) most = max(most, from[i]);
            for (uint i = 0; i < SIDE; i++) sum += exp(from[i] - most);
            for (uint i = 0; i < SIDE; i++) out[row * SIDE + i] = exp(from[i] - most) / sum;
        }

        kernel void rmsnorm(device const float* in [[buffer(0)]], device float* out [[buffer(2)]],
                            uint row [[thread_position_in_grid]]) {
            device const float* from = in + row * SIDE;
            float sum = 0;
            for (uint i = 0; i < SIDE; i++) sum += from[i] * from[i];
            float scale = rsqrt(sum / SIDE + 1e-6f);
            for (uint i = 0; i < SIDE; i++) out[row * SIDE + i] = from[i] * scale;
        }";

    pub(super) fn run() -> Result<(), Box<dyn Error>> {
        let path =
            std::env::args().nth(1).ok_or("give a trace to write: metal_pipeline run.trace")?;
        let device = MTLCreateSystemDefaultDevice().ok_or("no Metal device")?;
        let queue = device.newCommandQueue().ok_or("no command queue")?;
        let recorder = Recorder::builder().path(path).start()?;
        // Half of the sample buffers: there is a second queue.
        let builder = GpuProfiler::builder(&queue).device_number(0);
        let profiler = builder.most_in_flight(256).most_sample_buffers(4).start();
        eprintln!("{profiler:?}: {:?}", profiler.abilities());
        let pipeline = Pipeline::new(&device, &profiler)?;
        for round in 0..ROUNDS {
            let _round = span!("round", number = round);
            // Command buffers and passes are released with the pool.
            autoreleasepool(|_| pipeline.round(&profiler, &queue))?;
        }
        if !profiler.flush(Duration::from_secs(5)) {
            return Err(format!("not done after five seconds: {}", profiler.report()).into());
        }
        pipeline.check()?;
        lose_a_device(&device, &pipeline)?;
        pipeline.release(&profiler);
        let queue = profiler.queue().name();
        eprintln!("{queue}: {}", profiler.finish(Duration::ZERO));
        eprintln!("{}", recorder.finish()?);
        Ok(())
    }

    /// What becomes of work after the program was told that a device is gone: an external one was
    /// unplugged, say. Here it is only said so, of a second queue.
    fn lose_a_device(
        device: &ProtocolObject<dyn MTLDevice>,
        pipeline: &Pipeline,
    ) -> Result<(), Box<dyn Error>> {
        let queue = device.newCommandQueue().ok_or("no command queue")?;
        let profiler = GpuProfiler::new(&queue);
        profiler.stream().compute("rmsnorm", |encoder| pipeline.encode_rmsnorm(encoder));
        profiler.flush(Duration::from_secs(5));
        profiler.device_lost();
        // It still runs, and is counted: it has no times.
        profiler.stream().compute("rmsnorm", |encoder| pipeline.encode_rmsnorm(encoder));
        let queue = profiler.queue().name();
        eprintln!("{queue}: {}", profiler.finish(Duration::ZERO));
        Ok(())
    }

    struct Pipeline {
        matmul: Kernel,
        softmax: Kernel,
        rmsnorm: Kernel,
        input: Buffer,
        weights: Buffer,
        hidden: Buffer,
        normed: Buffer,
        output: Buffer,
        /// What the profiler was told of the buffers.
        held: Vec<Allocation>,
    }

    impl Pipeline {
        fn new(
            device: &ProtocolObject<dyn MTLDevice>,
            profiler: &GpuProfiler,
        ) -> Result<Self, Box<dyn Error>> {
            let library = device
                .newLibraryWithSource_options_error(&NSString::from_str(SOURCE), None)
                .map_err(|error| error.to_string())?;
            let kernel = |name: &str| -> Result<Kernel, Box<dyn Error>> {
                let function = library.newFunctionWithName(&NSString::from_str(name));
                let function = function.ok_or_else(|| format!("no kernel {name}"))?;
                let made = device.newComputePipelineStateWithFunction_error(&function);
                Ok(made.map_err(|error| error.to_string())?)
            };
            let mut held = Vec::new();
            let mut buffer = |kind: &str| {
                let options = MTLResourceOptions::StorageModeShared;
                let made = device.newBufferWithLength_options(BYTES, options).ok_or("no memory");
                held.push(profiler.memory().allocated(BYTES as u64, kind));
                made
            };
            let pipeline = Self {
                matmul: kernel("matmul")?,
                softmax: kernel("softmax")?,
                rmsnorm: kernel("rmsnorm")?,
                input: buffer("activations")?,
                weights: buffer("weights")?,
                hidden: buffer("scratch")?,
                normed: buffer("scratch")?,
                output: buffer("activations")?,
                held,
            };
            for (at, value) in floats(&pipeline.input).iter_mut().enumerate() {
                *value = (at % 13) as f32 / 13.0 - 0.5;
            }
            for (at, value) in floats(&pipeline.weights).iter_mut().enumerate() {
                *value = (at % 7) as f32 / 7.0 - 0.5;
            }
            Ok(pipeline)
        }

        /// Lets go of the buffers, and says so.
        fn release(self, profiler: &GpuProfiler) {
            let (memory, held) = (profiler.memory(), self.held);
            held.into_iter().for_each(|allocation| memory.released(allocation));
            memory.snapshot(memory.in_use(), None);
            eprintln!("memory of the device: {} bytes at most", memory.peak());
        }

        fn round(
            &self,
            profiler: &GpuProfiler,
            queue: &ProtocolObject<dyn MTLCommandQueue>,
        ) -> Result<(), Box<dyn Error>> {
            // As RINGSCOPE_GPU_LATENCY has it: a command buffer for each kernel, or for all.
            let mut stream = profiler.stream();
            let fill = Work::Fill { bytes: Some(BYTES as u64) };
            let all = NSRange::from(0..BYTES);
            stream.blit("clear", fill, |blit| blit.fillBuffer_range_value(&self.hidden, all, 0));
            stream.compute("matmul", |encoder| self.encode_matmul(encoder));
            stream.compute("rmsnorm", |encoder| self.encode_rmsnorm(encoder));
            stream.compute("softmax", |encoder| self.encode_softmax(encoder));
            stream.flush();

            // Many in one, whatever the setting.
            let mut stream = profiler.stream().in_mode(false);
            stream.compute("matmul", |encoder| self.encode_matmul(encoder));
            stream.compute("rmsnorm", |encoder| self.encode_rmsnorm(encoder));
            drop(stream);

            // With command buffers in the program's own hands.
            let mut commands = profiler.commands("step").ok_or("no command buffer")?;
            let mut scope = commands.profile_compute("matmul").ok_or("no pass")?;
            scope.set_groups([SIDE as u32 / 16, SIDE as u32 / 16, 1]);
            self.encode_matmul(&scope);
            drop(scope);
            let concurrent = MTLDispatchType::Concurrent;
            let scope = commands.profile_compute_as("rmsnorm", concurrent).ok_or("no pass")?;
            self.encode_rmsnorm(&scope);
            drop(scope);
            let copied = Work::Copy {
                bytes: Some(BYTES as u64),
                direction: Some(Direction::DeviceToDevice),
            };
            let mut scope = commands.profile_blit("keep").ok_or("no pass")?;
            scope.set_work(copied);
            self.encode_copy(&scope);
            drop(scope);
            commands.commit().waitUntilCompleted();

            // In a command buffer and passes that were there before.
            let theirs = queue.commandBuffer().ok_or("no command buffer")?;
            let mut commands = profiler.attach(&*theirs);
            let encoder = theirs.computeCommandEncoder().ok_or("no pass")?;
            self.encode_rmsnorm(&commands.profile_compute_in(&encoder, "rmsnorm"));
            encoder.endEncoding();
            let blit = theirs.blitCommandEncoder().ok_or("no pass")?;
            let mut scope = commands.profile_blit_in(&blit, "keep");
            scope.set_work(copied);
            self.encode_copy(&scope);
            drop(scope);
            blit.endEncoding();
            // Left to the program: it is timed when that commits it.
            commands.end().commit();

            // In a wrapper that keeps books.
            let commands = queue.commandBuffer().ok_or("no command buffer")?;
            let mut commands = profiler.attach(Labelled { commands, label: "wrapped" });
            let scope = commands.profile_compute("softmax").ok_or("no pass")?;
            self.encode_softmax(&scope);
            drop(scope);
            // A pass outside of scopes: it runs, and is not recorded.
            let blit = commands.command_buffer().blitCommandEncoder().ok_or("no pass")?;
            blit.setLabel(Some(&NSString::from_str(commands.inner().label)));
            self.encode_copy(&blit);
            blit.endEncoding();
            // Its result is copied over: once more.
            let scope = commands.profile_compute("softmax").ok_or("no pass")?;
            self.encode_softmax(&scope);
            drop(scope);
            commands.commit();
            Ok(())
        }

        fn encode_matmul(&self, encoder: &Encoder) {
            encoder.setComputePipelineState(&self.matmul);
            bind(encoder, &[(0, &self.input), (1, &self.weights), (2, &self.hidden)]);
            let (groups, threads) = (SIDE / 16, 16);
            encoder.dispatchThreadgroups_threadsPerThreadgroup(
                MTLSize { width: groups, height: groups, depth: 1 },
                MTLSize { width: threads, height: threads, depth: 1 },
            );
        }

        fn encode_rmsnorm(&self, encoder: &Encoder) {
            encoder.setComputePipelineState(&self.rmsnorm);
            bind(encoder, &[(0, &self.hidden), (2, &self.normed)]);
            by_row(encoder);
        }

        fn encode_softmax(&self, encoder: &Encoder) {
            encoder.setComputePipelineState(&self.softmax);
            bind(encoder, &[(0, &self.normed), (2, &self.output)]);
            by_row(encoder);
        }

        fn encode_copy(&self, blit: &ProtocolObject<dyn MTLBlitCommandEncoder>) {
            // SAFETY: both buffers are of this size.
            unsafe {
                blit.copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size(
                    &self.normed,
                    0,
                    &self.output,
                    0,
                    BYTES,
                );
            }
        }

        /// Every row of a softmax adds up to one.
        fn check(&self) -> Result<(), Box<dyn Error>> {
            let output = floats(&self.output);
            let off = output.chunks(SIDE).map(|row| (row.iter().sum::<f32>() - 1.0).abs());
            let worst = off.fold(0.0, f32::max);
            if worst > 1e-3 { Err(format!("softmax is off by {worst}").into()) } else { Ok(()) }
        }
    }

    fn bind(encoder: &Encoder, buffers: &[(usize, &Buffer)]) {
        for &(index, buffer) in buffers {
            // SAFETY: the kernels take buffers of this size at these indices.
            unsafe { encoder.setBuffer_offset_atIndex(Some(buffer), 0, index) };
        }
    }

    fn by_row(encoder: &Encoder) {
        let threads = 64;
        encoder.dispatchThreadgroups_threadsPerThreadgroup(
            MTLSize { width: SIDE / threads, height: 1, depth: 1 },
            MTLSize { width: threads, height: 1, depth: 1 },
        );
    }

    /// The contents of a buffer; only while no kernel that uses it is in flight.
    #[allow(clippy::mut_from_ref)] // the memory is the device's, and not behind the reference
    fn floats(buffer: &Buffer) -> &mut [f32] {
        // SAFETY: shared memory of `BYTES` bytes, aligned to a page, that lives as long as
        // the buffer. Each caller drops the slice before it asks for that buffer again, and no
        // kernel runs meanwhile: this is called before the first one and after the last.
        unsafe { std::slice::from_raw_parts_mut(buffer.contents().as_ptr().cast(), SIDE * SIDE) }
    }

    /// A wrapper as frameworks have it.
    struct Labelled {
        commands: Retained<ProtocolObject<dyn MTLCommandBuffer>>,
        label: &'static str,
    }

    impl CommandBufferWrapper for Labelled {
        fn command_buffer(&self) -> &ProtocolObject<dyn MTLCommandBuffer> {
            &self.commands
        }

        fn commit_commands(&self) {
            self.commands.setLabel(Some(&NSString::from_str(self.label)));
            self.commands.commit();
        }
    }
}
