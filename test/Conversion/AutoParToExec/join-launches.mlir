// RUN: autopar-opt %s --autopar-join-launches | FileCheck %s

// Updates in place of states that follow one another become one launch; each block runs the body of its own. What reads
// what another one writes (%n) is not among them, nor what writes no state. Runs that are alike have one kernel.

// CHECK: exec.entry @step
// CHECK-NEXT: exec.launch @joined0(%[[W:.*]], %[[DW:.*]], %[[RATE:.*]], %[[B:.*]], %[[DB:.*]]) -> (%[[W]], %[[B]]) extent 5 grid [5, 64, 0] {bytes = 30 : i64, flops = 12 : i64, id = "w and 1 more", key = "map"}
// CHECK-NEXT: exec.launch @joined1(%[[N:.*]], %[[B]], %[[RATE]], %[[W]], %[[DW]]) -> (%[[N]], %[[W]])
// CHECK-NEXT: exec.launch @small(%[[DB]], %[[DB]], %[[RATE]]) -> (%[[DB]])
// CHECK-NEXT: exec.launch @small(%[[B]], %[[DB]], %[[RATE]]) -> (%[[B]])
// CHECK-NEXT: exec.launch @barrier(%[[N]]) -> (%[[N]]) {{.*}}key = "rows"
// CHECK-NEXT: exec.launch @joined0(%[[W]], %[[DW]], %[[RATE]], %[[B]], %[[DB]]) -> (%[[W]], %[[B]]) {{.*}}id = "like the first and 1 more"

// CHECK-NOT: func.func @large
// CHECK: func.func @joined0(%[[A0:.*]]: memref<1024xf32>, %[[A1:.*]]: memref<1024xf32>, %[[A2:.*]]: memref<1xf32>, %[[A3:.*]]: memref<16xf32>, %[[A4:.*]]: memref<16xf32>, %{{.*}}: memref<1024xf32>, %{{.*}}: memref<16xf32>) attributes {autopar.grid = array<i64: 5, 64, 0>}
// CHECK: %[[BLOCK:.*]] = gpu.block_id x
// CHECK: %[[C4:.*]] = arith.constant 4 : index
// CHECK: %[[FIRST:.*]] = arith.cmpi ult, %[[BLOCK]], %[[C4]]
// CHECK: scf.if %[[FIRST]]
// CHECK: memref.store %{{.*}}, %[[A0]]
// CHECK: } else {
// CHECK: %[[THREAD:.*]] = gpu.thread_id x
// CHECK: %[[C32:.*]] = arith.constant 32 : index
// CHECK: %[[HAS:.*]] = arith.cmpi ult, %[[THREAD]], %[[C32]]
// CHECK: scf.if %[[HAS]]
// CHECK: %[[OWN:.*]] = arith.subi %[[BLOCK]],
// CHECK: arith.muli %[[OWN]],
// CHECK: memref.store %{{.*}}, %[[A3]]
module {
  exec.program @class0 threads 1 kernels @kernels {
    %w = exec.buffer "w" device bytes 4096 : tensor<1024xf32>
    %dw = exec.buffer "dw" device bytes 4096 : tensor<1024xf32>
    %b = exec.buffer "b" device bytes 64 : tensor<16xf32>
    %db = exec.buffer "db" device bytes 64 : tensor<16xf32>
    %n = exec.buffer "n" device bytes 64 : tensor<16xf32>
    %rate = exec.buffer "rate" device bytes 4 : tensor<1xf32>
    exec.port state "w" %w : tensor<1024xf32>
    exec.port state "b" %b : tensor<16xf32>
    exec.port state "n" %n : tensor<16xf32>
    exec.entry @step {
      exec.launch @large(%w, %dw, %rate) -> (%w) extent 4 grid [4, 64, 0] {bytes = 20 : i64, flops = 8 : i64, id = "w", key = "map"}
      exec.launch @small(%b, %db, %rate) -> (%b) extent 1 grid [1, 32, 0] {bytes = 10 : i64, flops = 4 : i64, id = "b", key = "map"}
      exec.launch @small(%n, %b, %rate) -> (%n) extent 1 grid [1, 32, 0] {id = "n", key = "map"}
      exec.launch @large(%w, %dw, %rate) -> (%w) extent 4 grid [4, 64, 0] {id = "w again", key = "map"}
      exec.launch @small(%db, %db, %rate) -> (%db) extent 1 grid [1, 32, 0] {id = "no state", key = "map"}
      exec.launch @small(%b, %db, %rate) -> (%b) extent 1 grid [1, 32, 0] {id = "alone", key = "map"}
      exec.launch @barrier(%n) -> (%n) extent 1 grid [1, 32, 0] {id = "barrier", key = "rows"}
      exec.launch @large(%w, %dw, %rate) -> (%w) extent 4 grid [4, 64, 0] {id = "like the first", key = "map"}
      exec.launch @small(%b, %db, %rate) -> (%b) extent 1 grid [1, 32, 0] {id = "and its second", key = "map"}
    }
  }
  module @kernels {
    func.func @large(%x: memref<1024xf32>, %g: memref<1024xf32>, %rate: memref<1xf32>, %y: memref<1024xf32>) attributes {autopar.grid = array<i64: 4, 64, 0>} {
      %block = gpu.block_id x
      %thread = gpu.thread_id x
      %c64 = arith.constant 64 : index
      %first = arith.muli %block, %c64 : index
      %i = arith.addi %first, %thread : index
      %v = memref.load %g[%i] : memref<1024xf32>
      memref.store %v, %x[%i] : memref<1024xf32>
      return
    }
    func.func @small(%x: memref<16xf32>, %g: memref<16xf32>, %rate: memref<1xf32>, %y: memref<16xf32>) attributes {autopar.grid = array<i64: 1, 32, 0>} {
      %block = gpu.block_id x
      %thread = gpu.thread_id x
      %c32 = arith.constant 32 : index
      %first = arith.muli %block, %c32 : index
      %i = arith.addi %first, %thread : index
      %c16 = arith.constant 16 : index
      %inside = arith.cmpi ult, %i, %c16 : index
      scf.if %inside {
        %v = memref.load %g[%i] : memref<16xf32>
        memref.store %v, %x[%i] : memref<16xf32>
      }
      return
    }
    func.func @barrier(%x: memref<16xf32>, %y: memref<16xf32>) attributes {autopar.grid = array<i64: 1, 32, 0>} {
      gpu.barrier
      return
    }
  }
}
