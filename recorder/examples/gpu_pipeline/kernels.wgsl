// One layer in small: result = rmsnorm(softmax(a b)). Matrices are square, by rows.

const N: u32 = 192;

@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> scores: array<f32>;
@group(0) @binding(3) var<storage, read_write> result: array<f32>;

@compute @workgroup_size(8, 8)
fn matmul(@builtin(global_invocation_id) at: vec3<u32>) {
    var sum = 0.0;
    for (var k = 0u; k < N; k++) {
        sum += a[at.y * N + k] * b[k * N + at.x];
    }
    scores[at.y * N + at.x] = sum;
}

@compute @workgroup_size(8)
fn softmax(@builtin(global_invocation_id) at: vec3<u32>) {
    let row = at.x * N;
    var most = scores[row];
    for (var k = 1u; k < N; k++) {
        most = max(most, scores[row + k]);
    }
    var sum = 0.0;
    for (var k = 0u; k < N; k++) {
        sum += exp(scores[row + k] - most);
    }
    for (var k = 0u; k < N; k++) {
        result[row + k] = exp(scores[row + k] - most) / sum;
    }
}

@compute @workgroup_size(8)
fn rmsnorm(@builtin(global_invocation_id) at: vec3<u32>) {
    let row = at.x * N;
    var squares = 0.0;
    for (var k = 0u; k < N; k++) {
        squares += result[row + k] * result[row + k];
    }
    let scale = inverseSqrt(squares / f32(N) + 1e-12);
    for (var k = 0u; k < N; k++) {
        result[row + k] *= scale;
    }
}
