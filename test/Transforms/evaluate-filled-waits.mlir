// Two kernels of 54 us run while an all-reduce is waited for; what one of them reads, 64 MiB, is kept until then: within a 32nd
// of what plans may use of a device, or of the limit.
//
// RUN: autopar-opt %s --autopar-evaluate-step="cluster=presets:h100x2 target=cuda" | FileCheck %s --check-prefix=FILLED
// RUN: autopar-opt %s --autopar-evaluate-step="cluster=presets:h100x2 target=cuda memory-limit=4294967296" | FileCheck %s --check-prefix=FILLED
// RUN: autopar-opt %s --autopar-evaluate-step="cluster=presets:h100x2 target=cuda memory-limit=1073741824" | FileCheck %s --check-prefix=APART
// FILLED: autopar.step_us = 299.5{{.*}} : f64
// APART: autopar.step_us = 407.7{{.*}} : f64
module {
  autopar.mesh @mesh ["t" = 2]
  func.func @main(%x: tensor<4096x4096xf32>, %v: tensor<4096x4096xf32>) -> (tensor<4096x4096xf32>, tensor<4096x4096xf32>) {
    %a = autopar.unary exp %x {autopar.id = "a"} : tensor<4096x4096xf32>
    %b = autopar.unary tanh %a {autopar.id = "b"} : tensor<4096x4096xf32>
    %p = autopar.unary exp %v {autopar.id = "p"} : tensor<4096x4096xf32>
    %s = autopar.all_reduce sum %p over @mesh ["t"] {autopar.id = "s"} : tensor<4096x4096xf32>
    %y = autopar.unary exp %s {autopar.id = "y"} : tensor<4096x4096xf32>
    return %b, %y : tensor<4096x4096xf32>, tensor<4096x4096xf32>
  }
}
