// RUN: autopar-opt %s --autopar-join-launches --split-input-file | FileCheck %s

// Launches that move little and do not need each other become one, wherever they stand: casts run as early as the first
// of them, sums as late as the last. Their bodies share the memory of a block, and end apart, so that LLVM makes no tail of
// them that knows its buffers no longer.

// CHECK: exec.entry @step
// CHECK-NEXT: exec.launch @joined0(%[[W0:.*]], %[[W1:.*]], %[[W2:.*]]) -> (%[[C0:.*]], %[[C1:.*]], %[[C2:.*]]) extent 12 grid [12, 64, 0] {bytes = 36 : i64, id = "c0 and 2 more", key = "map"}
// CHECK-NEXT: exec.copy {{.*}}id = "m0"
// CHECK-NEXT: exec.launch @parts({{.*}}id = "p0"
// CHECK-NEXT: exec.copy {{.*}}id = "m1"
// CHECK-NEXT: exec.launch @parts({{.*}}id = "p1"
// CHECK-NEXT: exec.launch @joined1(%[[P0:.*]], %[[P1:.*]]) -> (%[[S0:.*]], %[[S1:.*]]) extent 2 grid [2, 64, 0] {id = "s0 and 1 more", key = "rows"}
// CHECK-NEXT: exec.collective {{ *}}all_reduce %[[S1]]

// A cast passes no instruction of another queue, which would begin later; a sum runs before its first reader. What moves
// much stays alone, and what has other threads beside a barrier, and what the loss needs.

// CHECK-NEXT: exec.launch @cast({{.*}}id = "behind the collective"
// CHECK-NEXT: exec.launch @sum({{.*}}id = "s2"
// CHECK-NEXT: exec.copy {{.*}}id = "its reader"
// CHECK-NEXT: exec.launch @sum({{.*}}id = "s3"
// CHECK-NEXT: exec.launch @sum({{.*}}id = "much"
// CHECK-NEXT: exec.launch @narrow({{.*}}id = "other threads"
// CHECK-NEXT: exec.launch @sum({{.*}}id = "of the loss"
// CHECK-NEXT: exec.copy {{.*}}id = "loss"

// CHECK: func.func @joined1(%[[A0:.*]]: memref<64xf32>, %[[A1:.*]]: memref<64xf32>, %[[A2:.*]]: memref<1xf32>, %[[A3:.*]]: memref<1xf32>)
// CHECK: memref.alloca
// CHECK-NOT: memref.alloca
// CHECK: scf.if
// CHECK: memref.load %[[A0]]
// CHECK: gpu.barrier
// CHECK: memref.store %{{.*}}, %[[A2]]
// CHECK: nvvm.bar.warp.sync
// CHECK: } else {
// CHECK-NOT: memref.alloca
// CHECK: memref.load %[[A1]]
// CHECK: gpu.barrier
// CHECK: memref.store %{{.*}}, %[[A3]]
// CHECK: return
module {
  exec.program @class0 threads 1 kernels @kernels {
    %w0 = exec.buffer "w0" device bytes 1024 : tensor<256xf32>
    %w1 = exec.buffer "w1" device bytes 1024 : tensor<256xf32>
    %w2 = exec.buffer "w2" device bytes 1024 : tensor<256xf32>
    %w3 = exec.buffer "w3" device bytes 1024 : tensor<256xf32>
    exec.port parameter "w0" %w0 : tensor<256xf32>
    exec.port parameter "w1" %w1 : tensor<256xf32>
    exec.port parameter "w2" %w2 : tensor<256xf32>
    exec.port parameter "w3" %w3 : tensor<256xf32>
    %c0 = exec.buffer "c0" device bytes 512 : tensor<256xbf16>
    %c1 = exec.buffer "c1" device bytes 512 : tensor<256xbf16>
    %c2 = exec.buffer "c2" device bytes 512 : tensor<256xbf16>
    %c3 = exec.buffer "c3" device bytes 512 : tensor<256xbf16>
    %y0 = exec.buffer "y0" device bytes 512 : tensor<256xbf16>
    %y1 = exec.buffer "y1" device bytes 512 : tensor<256xbf16>
    %p0 = exec.buffer "p0" device bytes 256 : tensor<64xf32>
    %p1 = exec.buffer "p1" device bytes 256 : tensor<64xf32>
    %s0 = exec.buffer "s0" device bytes 4 : tensor<1xf32>
    %s1 = exec.buffer "s1" device bytes 4 : tensor<1xf32>
    %s2 = exec.buffer "s2" device bytes 4 : tensor<1xf32>
    %s3 = exec.buffer "s3" device bytes 4 : tensor<1xf32>
    %s4 = exec.buffer "s4" device bytes 4 : tensor<1xf32>
    %s5 = exec.buffer "s5" device bytes 4 : tensor<1xf32>
    %s6 = exec.buffer "s6" device bytes 4 : tensor<1xf32>
    %r = exec.buffer "r" device bytes 4 : tensor<1xf32>
    %q = exec.buffer "q" device bytes 256 : tensor<64xf32>
    %in = exec.buffer "in" device bytes 256 : tensor<64xf32>
    exec.port input "in" %in : tensor<64xf32>
    %large = exec.buffer "large" device bytes 8192 : tensor<2048xf32>
    %loss = exec.buffer "loss" device bytes 4 : tensor<1xf32>
    exec.port metric "loss" %loss : tensor<1xf32> {evaluated}
    exec.entry @step {
      exec.launch @cast(%w0) -> (%c0) extent 4 grid [4, 64, 0] {bytes = 12 : i64, id = "c0", key = "map"}
      exec.copy %c0 at 0 -> %y0 at 0 bytes 512 {id = "m0"}
      exec.launch @cast(%w1) -> (%c1) extent 4 grid [4, 64, 0] {bytes = 12 : i64, id = "c1", key = "map"}
      exec.launch @parts(%y0) -> (%p0) extent 1 grid [1, 64, 0] {bytes = 99999999 : i64, id = "p0", key = "rows"}
      exec.launch @sum(%p0) -> (%s0) extent 1 grid [1, 64, 0] {id = "s0", key = "rows"}
      exec.copy %c1 at 0 -> %y1 at 0 bytes 512 {id = "m1"}
      exec.launch @cast(%w2) -> (%c2) extent 4 grid [4, 64, 0] {bytes = 12 : i64, id = "c2", key = "map"}
      exec.launch @parts(%y1) -> (%p1) extent 1 grid [1, 64, 0] {bytes = 99999999 : i64, id = "p1", key = "rows"}
      exec.launch @sum(%p1) -> (%s1) extent 1 grid [1, 64, 0] {id = "s1", key = "rows"}
      exec.collective all_reduce %s1 -> %r group 0 count 1 : f32 queue communication
      exec.launch @cast(%w3) -> (%c3) extent 4 grid [4, 64, 0] {id = "behind the collective", key = "map"}
      exec.launch @sum(%p0) -> (%s2) extent 1 grid [1, 64, 0] {id = "s2", key = "rows"}
      exec.copy %s2 at 0 -> %q at 0 bytes 4 {id = "its reader"}
      exec.launch @sum(%q) -> (%s3) extent 1 grid [1, 64, 0] {id = "s3", key = "rows"}
      exec.launch @sum(%p1) -> (%s4) extent 1 grid [1, 64, 0] {bytes = 99999999 : i64, id = "much", key = "rows"}
      exec.launch @narrow(%p1) -> (%s5) extent 1 grid [1, 32, 0] {id = "other threads", key = "rows"}
      exec.launch @sum(%in) -> (%s6) extent 1 grid [1, 64, 0] {id = "of the loss", key = "rows"}
      exec.copy %s6 at 0 -> %loss at 0 bytes 4 {id = "loss"}
      exec.copy %q at 0 -> %large at 0 bytes 4 {id = "peak"}
    }
    exec.timetable [@step] slots [0]
  }
  module @kernels {
    func.func @cast(%x: memref<256xf32>, %y: memref<256xbf16>) attributes {autopar.grid = array<i64: 4, 64, 0>} {
      %block = gpu.block_id x
      %thread = gpu.thread_id x
      %c64 = arith.constant 64 : index
      %first = arith.muli %block, %c64 : index
      %i = arith.addi %first, %thread : index
      %v = memref.load %x[%i] : memref<256xf32>
      %n = arith.truncf %v : f32 to bf16
      memref.store %n, %y[%i] : memref<256xbf16>
      return
    }
    func.func @parts(%x: memref<256xbf16>, %y: memref<64xf32>) attributes {autopar.grid = array<i64: 1, 64, 0>} {
      %thread = gpu.thread_id x
      %v = memref.load %x[%thread] : memref<256xbf16>
      %w = arith.extf %v : bf16 to f32
      memref.store %w, %y[%thread] : memref<64xf32>
      return
    }
    func.func @sum(%x: memref<64xf32>, %y: memref<1xf32>) attributes {autopar.grid = array<i64: 1, 64, 0>} {
      %shared = memref.alloca() {alignment = 16 : i64} : memref<64xf32, #gpu.address_space<workgroup>>
      %thread = gpu.thread_id x
      %v = memref.load %x[%thread] : memref<64xf32>
      memref.store %v, %shared[%thread] : memref<64xf32, #gpu.address_space<workgroup>>
      gpu.barrier
      %c0 = arith.constant 0 : index
      %w = memref.load %shared[%c0] : memref<64xf32, #gpu.address_space<workgroup>>
      memref.store %w, %y[%c0] : memref<1xf32>
      return
    }
    func.func @narrow(%x: memref<64xf32>, %y: memref<1xf32>) attributes {autopar.grid = array<i64: 1, 32, 0>} {
      %thread = gpu.thread_id x
      %v = memref.load %x[%thread] : memref<64xf32>
      gpu.barrier
      %c0 = arith.constant 0 : index
      memref.store %v, %y[%c0] : memref<1xf32>
      return
    }
  }
}

// -----

// A sum does not keep what it reads through the peak.

// CHECK: exec.copy {{.*}}id = "begin"
// CHECK-NEXT: exec.launch @sum({{.*}}id = "s0"
// CHECK-NEXT: exec.copy {{.*}}id = "peak"
// CHECK-NEXT: exec.copy {{.*}}id = "end of the peak"
// CHECK-NEXT: exec.launch @sum({{.*}}id = "s1"
module {
  exec.program @class0 threads 1 kernels @kernels {
    %x = exec.buffer "x" device bytes 256 : tensor<64xf32>
    %y = exec.buffer "y" device bytes 4 : tensor<1xf32>
    exec.port input "x" %x : tensor<64xf32>
    exec.port output "y" %y : tensor<1xf32>
    %p0 = exec.buffer "p0" device bytes 256 : tensor<64xf32>
    %p1 = exec.buffer "p1" device bytes 256 : tensor<64xf32>
    %s0 = exec.buffer "s0" device bytes 4 : tensor<1xf32>
    %s1 = exec.buffer "s1" device bytes 4 : tensor<1xf32>
    %large = exec.buffer "large" device bytes 4096 : tensor<1024xf32>
    exec.entry @step {
      exec.copy %x at 0 -> %p0 at 0 bytes 256 {id = "begin"}
      exec.launch @sum(%p0) -> (%s0) extent 1 grid [1, 64, 0] {id = "s0", key = "rows"}
      exec.copy %x at 0 -> %large at 0 bytes 256 {id = "peak"}
      exec.copy %large at 0 -> %p1 at 0 bytes 256 {id = "end of the peak"}
      exec.launch @sum(%p1) -> (%s1) extent 1 grid [1, 64, 0] {id = "s1", key = "rows"}
      exec.copy %s1 at 0 -> %s0 at 0 bytes 4 {id = "end"}
      exec.copy %s0 at 0 -> %y at 0 bytes 4 {id = "last"}
    }
    exec.timetable [@step] slots [0]
  }
  module @kernels {
    func.func @sum(%x: memref<64xf32>, %y: memref<1xf32>) attributes {autopar.grid = array<i64: 1, 64, 0>} {
      %c0 = arith.constant 0 : index
      %w = memref.load %x[%c0] : memref<64xf32>
      memref.store %w, %y[%c0] : memref<1xf32>
      return
    }
  }
}
