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
  // expected-error @+1 {{"x": only an i64 scalar input says how much is missing}}
  exec.port input "x" %x : tensor<16xi32> {missing = "n"}
}

// -----

exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<16xi32>
  // expected-error @+1 {{"x": expected {dim, extent, least, step} of a dimension, got {dim = 1 : i64, extent = "n", least = 1 : i64}}}
  exec.port input "x" %x : tensor<16xi32> {varying = [{dim = 1 : i64, extent = "n", least = 1 : i64}]}
}

// -----

exec.program @p threads 1 {
  // expected-error @+1 {{"w": only inputs and outputs vary}}
  exec.port parameter "w" : tensor<16xf32> {varying = [{dim = 0 : i64, extent = "n", least = 1 : i64}]}
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

// -----

// expected-error @+1 {{'exec.program' op expected arena bytes of 3 spaces, got 2}}
exec.program @p arena [64, 0] threads 1 {

}

// -----

// expected-error @+1 {{'exec.program' op expected at least one thread, got 0}}
exec.program @p threads 0 {

}

// -----

exec.program @p threads 1 {
  // expected-error @+1 {{'exec.buffer' op expected a static tensor type, got 'tensor<?xf32>'}}
  %x = exec.buffer "x" device bytes 64 : tensor<?xf32>
}

// -----

exec.program @p threads 1 {
  // expected-error @+1 {{'exec.buffer' op has the negative offset -4}}
  %x = exec.buffer "x" device bytes 64 at -4 : tensor<16xf32>
}

// -----

exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<16xf32>
  // expected-error @+1 {{'exec.port' op "x": only a parameter has a source}}
  exec.port input "x" %x : tensor<16xf32> {file = "f"}
}

// -----

exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<16xf32>
  // expected-error @+1 {{'exec.port' op "w": expected a file or a value, not both}}
  exec.port parameter "w" %x : tensor<16xf32> {file = "f", value = dense<0.0> : tensor<16xf32>}
}

// -----

exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<16xf32>
  // expected-error @+1 {{'exec.port' op "w": value of type 'tensor<8xf32>' for a port of type 'tensor<16xf32>'}}
  exec.port parameter "w" %x : tensor<16xf32> {value = dense<0.0> : tensor<8xf32>}
}

// -----

exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<16xf32>
  // expected-error @+1 {{'exec.port' op "x": 2 micro-batches do not fit 'tensor<16xf32>'}}
  exec.port input "x" %x : tensor<16xf32> {microBatches = 2 : i64}
}

// -----

exec.program @p threads 1 {
  %w = exec.buffer "w" device bytes 64 : tensor<16xf32>
  // expected-error @+1 {{'exec.port' op "w": the shape [4, 5] in the model does not fit 'tensor<16xf32>'}}
  exec.port parameter "w" %w : tensor<16xf32> {modelShape = array<i64: 4, 5>}
}

// -----

exec.program @p threads 1 {
  %w = exec.buffer "w" device bytes 64 : tensor<16xf32>
  // expected-error @+1 {{'exec.port' op "w": only a parameter that is a matrix in the model is the transpose of another}}
  exec.port parameter "w" %w : tensor<16xf32> {transposeOf = "v"}
}

// -----

exec.program @p threads 1 {
  %w = exec.buffer "w" device bytes 64 : tensor<16xf32>
  // expected-error @+1 {{'exec.port' op "w": only a parameter without a source is drawn}}
  exec.port parameter "w" %w : tensor<16xf32> {drawn = "zeros", file = "m.onnx"}
}

// -----

exec.program @p threads 1 {
  exec.entry @step {
    // expected-error @+1 {{'autopar.constant' op is no instruction, but stands in an entry}}
    %c = autopar.constant dense<1.0> : tensor<f32>
  }
}

// -----

exec.program @p threads 1 {
  exec.entry @step {
  }
  // expected-error @+1 {{'exec.timetable' op expected one slot per row, got 1 rows and 2 slots}}
  exec.timetable [@step] slots [0, 1]
}

// -----

exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<4x4xf32>
  exec.entry @step {
    // expected-error @+1 {{'exec.matmul' op expected operands of one rank, got 2, 2 and 3}}
    exec.matmul %x, %x -> %x <a = <f32 [2, 2] strides [2, 1]>, b = <f32 [2, 2] strides [2, 1]>, c = <f32 [1, 2, 2] strides [4, 2, 1]>>
  }
}

// -----

exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<4x4xf32>
  exec.entry @step {
    // expected-error @+1 {{'exec.matmul' op batch sizes do not fit: [3, 1, 1] x [2, 1, 1] -> [2, 1, 1]}}
    exec.matmul %x, %x -> %x <a = <f32 [3, 1, 1] strides [1, 1, 1]>, b = <f32 [2, 1, 1] strides [1, 1, 1]>, c = <f32 [2, 1, 1] strides [1, 1, 1]>>
  }
}

// -----

exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<4x4xf32>
  exec.entry @step {
    // expected-error @+1 {{'exec.matmul' op expected a bias buffer exactly where the geometry has a bias}}
    exec.matmul %x, %x -> %x bias %x <a = <f32 [2, 2] strides [2, 1]>, b = <f32 [2, 2] strides [2, 1]>, c = <f32 [2, 2] strides [2, 1]>>
  }
}

// -----

exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<4x4xf32>
  exec.entry @step {
    // expected-error @+1 {{'exec.matmul' op expected a residual buffer exactly where the geometry has a residual}}
    exec.matmul %x, %x -> %x <a = <f32 [2, 2] strides [2, 1]>, b = <f32 [2, 2] strides [2, 1]>, c = <f32 [2, 2] strides [2, 1]>, residual = true>
  }
}

// -----

exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<4x4xf32>
  exec.entry @step {
    // expected-error @+1 {{'exec.matmul' op expected an aux buffer exactly where the epilogue stores a second result}}
    exec.matmul %x, %x -> %x <a = <f32 [2, 2] strides [2, 1]>, b = <f32 [2, 2] strides [2, 1]>, c = <f32 [2, 2] strides [2, 1]>, epilogue = sums_of_a>
  }
}

// -----

exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<4x4xf32>
  exec.entry @step {
    // expected-error @+2 {{failed to parse Exec_MatmulAttr parameter 'a'}}
    // expected-error @+1 {{expected one stride per size and at least two sizes, got 2 sizes and 1 strides}}
    exec.matmul %x, %x -> %x <a = <f32 [2, 2] strides [2]>, b = <f32 [2, 2] strides [2, 1]>, c = <f32 [2, 2] strides [2, 1]>>
  }
}

// -----

exec.program @p threads 1 {
}
// expected-error @+1 {{'exec.rank' op expected groups of ranks (array<i32>), got 1 : i64}}
exec.rank 0 of @p groups [1] values [] ports []

// -----

exec.program @p threads 1 {
}
// expected-error @+1 {{'exec.rank' op expected #exec.shard per port, got 1 : i64}}
exec.rank 0 of @p groups [] values [] ports [1]

// -----

func.func @f(%x: !exec.buffer) {
  // expected-error @+1 {{expected a view of a buffer or of another view}}
  %v = exec.view "v" %x at 0 bytes 64 : tensor<16xf32>
  return
}

// -----

exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 256 : tensor<1x1x8x8xf32>
  %w = exec.buffer "w" device bytes 4 : tensor<1x1x1x1xf32>
  %y = exec.buffer "y" device bytes 256 : tensor<1x1x8x8xf32>
  exec.entry @step {
    // expected-error @+1 {{expected 2 entries per spatial list, got 1}}
    exec.convolution %x, %w -> %y <x = tensor<1x1x8x8xf32>, w = tensor<1x1x1x1xf32>, y = tensor<1x1x8x8xf32>, strides = [1], padsBegin = [0, 0], padsEnd = [0, 0], dilations = [1, 1]>
  }
}

// -----

exec.program @p threads 1 {
  // expected-error @+1 {{expected elements of i1, i8, i16, i32, i64, ui8, ui16, ui32, ui64, f16, bf16, f32, f64, f8E4M3FN, f8E4M3FNUZ, f8E5M2, f8E5M2FNUZ or f4E2M1FN, got 'tensor<4xcomplex<f32>>'}}
  %x = exec.buffer "x" device bytes 64 : tensor<4xcomplex<f32>>
}

// -----

exec.program @p threads 1 {
  // expected-error @+1 {{expected elements of i1, i8, i16, i32, i64, ui8, ui16, ui32, ui64, f16, bf16, f32, f64, f8E4M3FN, f8E4M3FNUZ, f8E5M2, f8E5M2FNUZ or f4E2M1FN, got 'tensor<4xi128>'}}
  %x = exec.buffer "x" device bytes 64 : tensor<4xi128>
}

// -----

exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<4x4xf32>
  exec.entry @step {
    // expected-error @+1 {{expected a shard and how many there are, or neither}}
    "exec.attention"(%x, %x, %x, %x, %x) <{after = array<i32>, arithmetic = "f32", bytes = 0 : i64, flops = 0 : i64, geometry = #exec.attention<[<f32 [1, 1, 4, 4] strides [16, 16, 4, 1]>, <f32 [1, 1, 4, 4] strides [16, 16, 4, 1]>, <f32 [1, 1, 4, 4] strides [16, 16, 4, 1]>, <f32 [1, 1, 4, 4] strides [16, 16, 4, 1]>], scale = 1.0 : f64>, id = "", key = "", operandSegmentSizes = array<i32: 3, 2, 0>, queue = #exec<queue compute>, shardValue = 0 : i64}> : (!exec.buffer, !exec.buffer, !exec.buffer, !exec.buffer, !exec.buffer) -> ()
  }
}

// -----

exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<4x4xf32>
  exec.entry @step {
    // expected-error @+1 {{expected matrices [groups, rows, columns], got 'tensor<4x4xf32>'}}
    exec.grouped_product %x, %x by %x -> %x <lhs = <f32 [4, 4] strides [4, 1]>, rows = <f32 [4, 4] strides [4, 1]>, matrices = tensor<4x4xf32>, numbers = i64>
  }
}

// -----

exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<4x4xf32>
  exec.entry @step {
    // expected-error @+1 {{expected elements of i1, i8, i16, i32, i64, ui8, ui16, ui32, ui64, f16, bf16, f32, f64, f8E4M3FN, f8E4M3FNUZ, f8E5M2, f8E5M2FNUZ or f4E2M1FN, got 'index'}}
    exec.grouped_product %x, %x by %x -> %x <lhs = <f32 [4, 4] strides [4, 1]>, rows = <f32 [4, 4] strides [4, 1]>, matrices = tensor<1x4x4xf32>, numbers = index>
  }
}

// -----

exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<4x4xf32>
  exec.entry @step {
    // expected-error @+1 {{expected matrices in a buffer, or a kernel that makes them and the columns that it makes at a time}}
    exec.grouped_product %x, %x by %x -> %x <lhs = <f32 [4, 4] strides [4, 1]>, rows = <f32 [4, 4] strides [4, 1]>, matrices = tensor<1x4x4xf32>, numbers = i64, madeColumns = 2>
  }
}

// -----

exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<4x4xf32>
  exec.entry @step {
    // expected-error @+1 {{expected matrices in a buffer, or a kernel that makes them and the columns that it makes at a time}}
    exec.grouped_product %x, made by @k(%x) extent 1 steps [0], [0] by %x -> %x <lhs = <f32 [4, 4] strides [4, 1]>, rows = <f32 [4, 4] strides [4, 1]>, matrices = tensor<1x4x4xf32>, numbers = i64>
  }
}

// -----

exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<4x4xf32>
  exec.entry @step {
    // expected-error @+1 {{expected two steps for each of the 1 buffers that matrices are made of}}
    exec.grouped_product %x, made by @k(%x) extent 1 steps [0, 8], [0] by %x -> %x <lhs = <f32 [4, 4] strides [4, 1]>, rows = <f32 [4, 4] strides [4, 1]>, matrices = tensor<1x4x4xf32>, numbers = i64, madeColumns = 2>
  }
}

// -----

exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<16xf32>
  // expected-error @+1 {{of bytes [0, 96) does not fit into its base of 64 bytes}}
  %v = exec.view "v" %x at 0 bytes 32 : tensor<8xf32> {slots = 3 : i64, slotStride = 32 : i64}
}

// -----

exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<16xf32>
  %y = exec.buffer "y" device bytes 128 : tensor<32xf32>
  // expected-error @+1 {{expected two buffers of one space with the same number of bytes}}
  exec.hand_on %x to %y
}

// -----

exec.program @p threads 1 {
  exec.entry @a {
  }
  exec.entry @b {
  }
  // expected-error @+1 {{comes back to @a; expected rows of one entry to stand one behind the other}}
  exec.timetable [@a, @b, @a] slots [0, 0, 1]
}

// -----

exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<16xf32>
  exec.entry @a {
    // expected-error @+1 {{awaits instruction 1 of @a, which has 1}}
    exec.launch @k() -> (%x) extent 1 {awaits = {a = array<i32: 1>}}
  }
}
