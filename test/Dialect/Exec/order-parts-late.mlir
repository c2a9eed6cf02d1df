// RUN: autopar-opt %s --split-input-file --pass-pipeline="builtin.module(exec.program(autopar-order-parts-late))" | FileCheck %s

// The kernel that puts parts in order lets those go first that do not read them, collectives too.

// CHECK-LABEL: exec.entry @step
// CHECK-NEXT:    exec.collective all_gather %{{.*}} -> %[[PARTS:[0-9]+]]
// CHECK-NEXT:    @other
// CHECK-NEXT:    exec.collective all_reduce
// CHECK-NEXT:    @order(%[[PARTS]])
// CHECK-NEXT:    @reads
exec.program @waits threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<16xf32>
  %parts = exec.buffer "parts" device bytes 64 : tensor<16xf32>
  %ordered = exec.buffer "ordered" device bytes 64 : tensor<16xf32>
  %y = exec.buffer "y" device bytes 64 : tensor<16xf32>
  %z = exec.buffer "z" device bytes 64 : tensor<16xf32>
  %sum = exec.buffer "sum" device bytes 64 : tensor<16xf32>
  exec.port input "x" %x : tensor<16xf32>
  exec.port output "y" %y : tensor<16xf32>
  exec.port output "sum" %sum : tensor<16xf32>
  exec.entry @step {
    exec.collective all_gather %x -> %parts group 0 count 8 : f32 queue communication
    exec.launch @order(%parts) -> (%ordered) extent 4
    exec.launch @other(%x) -> (%z) extent 4
    exec.collective all_reduce %z -> %sum group 0 count 16 : f32 queue communication
    exec.launch @reads(%ordered) -> (%y) extent 4
  }
}

// -----

// What reads something else too, what others read, and what is an output, stays.

// CHECK-LABEL: exec.entry @step
// CHECK-NEXT:    exec.collective
// CHECK-NEXT:    @two
// CHECK-NEXT:    exec.collective
// CHECK-NEXT:    @shared
// CHECK-NEXT:    exec.collective
// CHECK-NEXT:    @last
// CHECK-NEXT:    @other
// CHECK-NEXT:    @reads
exec.program @stays threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<16xf32>
  %a = exec.buffer "a" device bytes 64 : tensor<16xf32>
  %b = exec.buffer "b" device bytes 64 : tensor<16xf32>
  %c = exec.buffer "c" device bytes 64 : tensor<16xf32>
  %two = exec.buffer "two" device bytes 64 : tensor<16xf32>
  %shared = exec.buffer "shared" device bytes 64 : tensor<16xf32>
  %y = exec.buffer "y" device bytes 64 : tensor<16xf32>
  %z = exec.buffer "z" device bytes 64 : tensor<16xf32>
  %u = exec.buffer "u" device bytes 64 : tensor<16xf32>
  exec.port input "x" %x : tensor<16xf32>
  exec.port output "y" %y : tensor<16xf32>
  exec.port output "u" %u : tensor<16xf32>
  exec.entry @step {
    exec.collective all_gather %x -> %a group 0 count 8 : f32 queue communication
    exec.launch @two(%a, %x) -> (%two) extent 4
    exec.collective all_gather %x -> %b group 0 count 8 : f32 queue communication
    exec.launch @shared(%b) -> (%shared) extent 4
    exec.collective all_gather %x -> %c group 0 count 8 : f32 queue communication
    exec.launch @last(%c) -> (%y) extent 4
    exec.launch @other(%x) -> (%z) extent 4
    exec.launch @reads(%two, %shared, %b, %z) -> (%u) extent 4
  }
}
