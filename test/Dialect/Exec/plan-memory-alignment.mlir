// RUN: autopar-opt %s --pass-pipeline="builtin.module(exec.program(autopar-plan-memory{alignment=256}))" | FileCheck %s
// RUN: autopar-opt %s --pass-pipeline="builtin.module(exec.program(autopar-plan-memory))" | FileCheck %s --check-prefix=DENSE
// RUN: not autopar-opt %s --pass-pipeline="builtin.module(exec.program(autopar-plan-memory{alignment=100}))" 2>&1 | FileCheck %s --check-prefix=ODD

// Buffers of 256 bytes and more, workspaces of libraries for GPUs among them, start at multiples of
// 256; smaller ones behind them.

// CHECK: exec.program @p arena [1408, 0, 0]
// CHECK: "x" device bytes 320 at 0
// CHECK: "s" device bytes 64 at 512
// CHECK: "a" device bytes 64 at 1280
// CHECK: "scratch" device bytes 300 at 768
// CHECK: "y" device bytes 64 at 1344
// DENSE: exec.program @p arena [832, 0, 0]
// DENSE: "scratch" device bytes 300 at 384
// ODD: alignment must be a multiple of 64, it is 100
exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 320 : tensor<80xf32>
  %s = exec.buffer "s" device bytes 64 : tensor<16xf32>
  %a = exec.buffer "a" device bytes 64 : tensor<16xf32>
  %scratch = exec.buffer "scratch" device bytes 300 : tensor<300xi8>
  %y = exec.buffer "y" device bytes 64 : tensor<16xf32>
  exec.port parameter "x" %x : tensor<80xf32>
  exec.port state "s" %s : tensor<16xf32>
  exec.port output "y" %y : tensor<16xf32>
  exec.entry @step {
    exec.launch @k(%x, %s) -> (%a) extent 1
    exec.matmul %a, %a -> %y scratch %scratch <a = <f32 [4, 4] strides [4, 1]>, b = <f32 [4, 4] strides [4, 1]>, c = <f32 [4, 4] strides [4, 1]>>
  }
}
