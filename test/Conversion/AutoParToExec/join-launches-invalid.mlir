// RUN: autopar-opt %s --split-input-file --autopar-join-launches --verify-diagnostics | FileCheck %s

// A kernel that the module lacks is not joined with any.

// CHECK: exec.launch @absent
// CHECK: exec.launch @absent
module {
  exec.program @class0 arena [256, 0, 0] threads 1 kernels @kernels {
    %x = exec.buffer "x" device bytes 32 at 0 : tensor<8xf32>
    %y = exec.buffer "y" device bytes 32 at 32 : tensor<8xf32>
    exec.entry @forward {
      exec.launch @absent(%y) -> (%x) extent 8 grid [1, 32, 0]
      exec.launch @absent(%y) -> (%x) extent 8 grid [1, 32, 0]
    }
    exec.timetable [@forward] slots [0]
  }
  module @kernels {}
}

// -----

module {
  // expected-error @+1 {{'exec.program' op names the kernels @kernels, which are no module here}}
  exec.program @class0 arena [256, 0, 0] threads 1 kernels @kernels {
    %x = exec.buffer "x" device bytes 32 at 0 : tensor<8xf32>
    exec.entry @forward {
      exec.launch @absent(%x) -> (%x) extent 8 grid [1, 32, 0]
    }
    exec.timetable [@forward] slots [0]
  }
}
