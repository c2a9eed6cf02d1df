// RUN: autopar-opt %s --split-input-file --pass-pipeline="builtin.module(exec.program(autopar-fill-waits{limit=65536}))" | FileCheck %s

// What nobody needs yet runs while "after" waits for the sum: the shortest that fills the wait, and
// what needs it goes with it.

// CHECK-LABEL: exec.entry @step
// CHECK-NEXT:    @long
// CHECK-NEXT:    @first
// CHECK-NEXT:    exec.collective
// CHECK-NEXT:    @fits
// CHECK-NEXT:    @goes_along
// CHECK-NEXT:    @after
exec.program @fills threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<16xf32>
  %long = exec.buffer "long" device bytes 64 : tensor<16xf32>
  %fits = exec.buffer "fits" device bytes 64 : tensor<16xf32>
  %along = exec.buffer "along" device bytes 64 : tensor<16xf32>
  %part = exec.buffer "part" device bytes 64 : tensor<16xf32>
  %sum = exec.buffer "sum" device bytes 64 : tensor<16xf32>
  %y = exec.buffer "y" device bytes 64 : tensor<16xf32>
  exec.port input "x" %x : tensor<16xf32>
  exec.port output "long" %long : tensor<16xf32>
  exec.port output "along" %along : tensor<16xf32>
  exec.port output "y" %y : tensor<16xf32>
  exec.entry @step {
    exec.launch @long(%x) -> (%long) extent 4 {us = 500.0}
    exec.launch @fits(%x) -> (%fits) extent 4 {us = 50.0}
    exec.launch @goes_along(%fits) -> (%along) extent 4 {us = 1.0}
    exec.launch @first(%x) -> (%part) extent 4 {us = 100.0}
    exec.collective all_reduce %part -> %sum group 0 count 16 : f32 queue communication {us = 50.0}
    exec.launch @after(%sum) -> (%y) extent 4 {us = 10.0}
  }
}

// -----

// What the collective itself needs stays before it, what is sent elsewhere too, which stands beside
// that already; a kernel goes no further than to one that writes what it reads or writes.

// CHECK-LABEL: exec.entry @step
// CHECK-NEXT:    @sent
// CHECK-NEXT:    exec.collective all_reduce
// CHECK-NEXT:    @first
// CHECK-NEXT:    exec.collective all_reduce
// CHECK-NEXT:    @overwritten
// CHECK-NEXT:    @overwrites
// CHECK-NEXT:    @after
exec.program @stays threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<16xf32>
  %sent = exec.buffer "sent" device bytes 64 : tensor<16xf32>
  %other = exec.buffer "other" device bytes 64 : tensor<16xf32>
  %kept = exec.buffer "kept" device bytes 64 : tensor<16xf32>
  %part = exec.buffer "part" device bytes 64 : tensor<16xf32>
  %sum = exec.buffer "sum" device bytes 64 : tensor<16xf32>
  %y = exec.buffer "y" device bytes 64 : tensor<16xf32>
  exec.port input "x" %x : tensor<16xf32>
  exec.port output "other" %other : tensor<16xf32>
  exec.port output "y" %y : tensor<16xf32>
  exec.entry @step {
    exec.launch @sent(%x) -> (%sent) extent 4 {us = 50.0}
    exec.collective all_reduce %sent -> %other group 0 count 16 : f32 queue communication {us = 50.0}
    exec.launch @overwritten(%x) -> (%kept) extent 4 {us = 50.0}
    exec.launch @first(%x) -> (%part) extent 4 {us = 100.0}
    exec.collective all_reduce %part -> %sum group 0 count 16 : f32 queue communication {us = 50.0}
    exec.launch @overwrites(%x) -> (%kept) extent 4 {us = 1.0}
    exec.launch @after(%sum, %kept) -> (%y) extent 4 {us = 10.0}
  }
}

// -----

// Operands that would live on for it must fit into a 32nd of the memory.

// CHECK-LABEL: exec.entry @step
// CHECK:         @large
// CHECK-NEXT:    @first
exec.program @keeps threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<16xf32>
  %operand = exec.buffer "operand" device bytes 4096 : tensor<1024xf32>
  %large = exec.buffer "large" device bytes 64 : tensor<16xf32>
  %part = exec.buffer "part" device bytes 64 : tensor<16xf32>
  %sum = exec.buffer "sum" device bytes 64 : tensor<16xf32>
  %y = exec.buffer "y" device bytes 64 : tensor<16xf32>
  exec.port input "x" %x : tensor<16xf32>
  exec.port output "large" %large : tensor<16xf32>
  exec.port output "y" %y : tensor<16xf32>
  exec.entry @step {
    exec.launch @made(%x) -> (%operand) extent 4 {us = 1.0}
    exec.launch @large(%operand) -> (%large) extent 4 {us = 50.0}
    exec.launch @first(%x) -> (%part) extent 4 {us = 100.0}
    exec.collective all_reduce %part -> %sum group 0 count 16 : f32 queue communication {us = 50.0}
    exec.launch @after(%sum) -> (%y) extent 4 {us = 10.0}
  }
}
