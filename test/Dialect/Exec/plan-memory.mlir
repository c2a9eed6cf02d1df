// RUN: autopar-opt %s --pass-pipeline="builtin.module(exec.program(autopar-plan-memory))" | FileCheck %s

// Buffers that are never live together share bytes; what load leaves for step does not; ports live
// through the whole step.

// CHECK: exec.program @p arena [320, 0, 0]
// CHECK: "x" device bytes 64 at 0
// CHECK: "a" device bytes 64 at 64
// CHECK: "b" device bytes 64 at 128
// CHECK: "c" device bytes 64 at 64
// CHECK: "read" device bytes 128 at 0
// CHECK: "w" device bytes 64 at 192
// CHECK: "y" device bytes 64 at 256
// CHECK-NOT: "unused"
exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<16xf32>
  %a = exec.buffer "a" device bytes 64 : tensor<16xf32>
  %b = exec.buffer "b" device bytes 64 : tensor<16xf32>
  %c = exec.buffer "c" device bytes 64 : tensor<16xf32>
  %read = exec.buffer "read" device bytes 128 : tensor<32xf32>
  %w = exec.buffer "w" device bytes 64 : tensor<16xf32>
  %y = exec.buffer "y" device bytes 64 : tensor<16xf32>
  %unused = exec.buffer "unused" device bytes 64 : tensor<16xf32>
  exec.port input "x" %x : tensor<16xf32>
  exec.port output "y" %y : tensor<16xf32>
  exec.port parameter "w" : tensor<32xf32>
  exec.entry @load {
    exec.read "w" -> %read
    exec.launch @k(%read) -> (%w) extent 1
  }
  exec.entry @step {
    exec.launch @k(%x, %w) -> (%a) extent 1
    exec.launch @k(%a) -> (%b) extent 1
    exec.launch @k(%b) -> (%c) extent 1
    exec.launch @k(%c, %w) -> (%y) extent 1
  }
}
