// RUN: autopar-opt %s --split-input-file --verify-diagnostics

exec.program @p arena [64, 0, 0] threads 1 {
  // expected-error @+1 {{ends at 128, behind its arena of 64 bytes}}
  %x = exec.buffer "x" device bytes 64 at 64 : tensor<16xf32>
}

// -----

exec.program @p threads 1 {
  // expected-error @+1 {{of 32 bytes is too small for 'tensor<16xf32>'}}
  %x = exec.buffer "x" device bytes 32 : tensor<16xf32>
}

// -----

exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<16xf32>
  // expected-error @+1 {{of bytes [32, 96) does not fit into its base of 64 bytes}}
  %v = exec.view "v" %x at 32 bytes 64 : tensor<16xf32>
}

// -----

exec.program @p threads 1 {
  // expected-error @+1 {{"x": only a parameter may go without a buffer}}
  exec.port input "x" : tensor<16xf32>
}

// -----

exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<16xf32>
  // expected-error @+1 {{"m": only a metric that is an f32 or f64 scalar may guard}}
  exec.port metric "m" %x : tensor<16xf32> {guards}
}

// -----

exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<16xi32>
  // expected-error @+1 {{"x": expected two limits, on an input}}
  exec.port input "x" %x : tensor<16xi32> {limits = array<i64: 4>}
}

// -----

exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<16xf32>
  exec.entry @step {
    // expected-error @+1 {{is instruction 0 and waits for 0, which is not an earlier one}}
    exec.launch @k(%x) -> () extent 1 after [0]
  }
}

// -----

exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<16xf32>
  exec.entry @step {
    // expected-error @+1 {{expected a grid [blocks, threads per block, dynamic shared bytes]}}
    exec.launch @k(%x) -> () extent 1 grid [0, 128, 0]
  }
}

// -----

exec.program @p threads 1 {
  // expected-error @+1 {{names @other, which is no entry of @p}}
  exec.timetable [@other] slots [0]
}

// -----

exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<4x4xf32>
  exec.entry @step {
    // expected-error @+1 {{sizes do not fit: [4, 4] x [2, 8] -> [4, 8]}}
    exec.matmul %x, %x -> %x <a = <f32 [4, 4] strides [4, 1]>, b = <f32 [2, 8] strides [8, 1]>, c = <f32 [4, 8] strides [8, 1]>>
  }
}

// -----

exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<4x4xf32>
  exec.entry @step {
    // expected-error @+1 {{expected 4 operands, or 8 of a gradient, got 1}}
    exec.attention(%x, %x, %x) -> (%x, %x) <[<f32 [1, 1, 4, 4] strides [16, 16, 4, 1]>], scale = 1.0 : f64>
  }
}

// -----

exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<4x4xf32>
  exec.entry @step {
    // expected-error @+1 {{expected 3 inputs and 2 outputs, got 2 and 2}}
    exec.attention(%x, %x) -> (%x, %x) <[<f32 [1, 1, 4, 4] strides [16, 16, 4, 1]>, <f32 [1, 1, 4, 4] strides [16, 16, 4, 1]>, <f32 [1, 1, 4, 4] strides [16, 16, 4, 1]>, <f32 [1, 1, 4, 4] strides [16, 16, 4, 1]>], scale = 1.0 : f64>
  }
}

// -----

// expected-error @+1 {{names the program @p, which does not exist}}
exec.rank 0 of @p groups [] values [] ports []
