// RUN: rm -rf %t && mkdir -p %t/bin
// RUN: echo '#!/bin/sh' > %t/bin/ptxas
// RUN: echo 'echo "ptxas fatal: Value sm_90 is not defined for option gpu-name"; exit 1' >> %t/bin/ptxas
// RUN: chmod +x %t/bin/ptxas
// RUN: env CUDA_HOME=%t not autopar-compile %s --cluster presets:h100x1 -o %t/x.bin 2>&1 | FileCheck %s
// RUN: env CUDA_HOME=%t TMPDIR=%t/nowhere not autopar-compile %s --cluster presets:h100x1 -o %t/x.bin 2>&1 | FileCheck %s --check-prefix=FOLDER

// An assembler that does not know the cluster's chip, such as an old one.

// CHECK: bin/ptxas refuses the kernels for sm_90: ptxas fatal: Value sm_90 is not defined
// FOLDER: cannot make a temporary file for ptxas: No such file or directory; set TMPDIR to a folder that can be written
func.func @main(%x: tensor<8xf32> {autopar.name = "x"}) -> (tensor<8xf32> {autopar.name = "y"}) {
  %0 = autopar.unary exp %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
