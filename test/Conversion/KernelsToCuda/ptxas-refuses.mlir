// RUN: rm -rf %t && mkdir -p %t/bin
// RUN: echo '#!/bin/sh' > %t/bin/ptxas
// RUN: echo 'echo "$SAID"; exit $ENDS' >> %t/bin/ptxas
// RUN: chmod +x %t/bin/ptxas

// An assembler that does not know the cluster's chip, or today's PTX.
// RUN: env CUDA_HOME=%t SAID="ptxas fatal   : Value 'sm_90' is not defined for option 'gpu-name'" ENDS=255 \
// RUN:   sh -c 'autopar-compile %s --cluster presets:h100x1 -o %t/x.bin; echo ended with $?' 2>&1 | FileCheck %s --check-prefix=OLD
// RUN: env CUDA_HOME=%t SAID="ptxas x.ptx, line 1; fatal   : Unsupported .version 8.0; current version is '7.8'" ENDS=255 \
// RUN:   sh -c 'autopar-compile %s --cluster presets:h100x1 -o %t/x.bin; echo ended with $?' 2>&1 | FileCheck %s --check-prefix=OLD
// OLD: bin/ptxas is too old for sm_90: ptxas {{.*}}; set CUDA_HOME to a newer CUDA toolkit
// OLD: ended with 69

// One that finds an error in what it is given: that is ours.
// RUN: env CUDA_HOME=%t SAID="ptxas x.ptx, line 4; error   : Not a name of any known instruction: 'foo'" ENDS=255 \
// RUN:   sh -c 'autopar-compile %s --cluster presets:h100x1 -o %t/x.bin; echo ended with $?' 2>&1 | FileCheck %s --check-prefix=WRONG
// WRONG: bin/ptxas refuses the kernels for sm_90: ptxas x.ptx, line 4; error
// WRONG: ended with 70

// RUN: env CUDA_HOME=%t TMPDIR=%t/none TMP=%t/none sh -c 'autopar-compile %s --cluster presets:h100x1 -o %t/x.bin; echo ended with $?' 2>&1 | FileCheck %s --check-prefix=FOLDER
// FOLDER: cannot make a temporary file for ptxas: {{.+}}; set TMPDIR to a folder that can be written
// FOLDER: ended with 73

// And one that is no program.
// RUN: echo 'no program' > %t/bin/ptxas
// RUN: env CUDA_HOME=%t sh -c 'autopar-compile %s --cluster presets:h100x1 -o %t/x.bin; echo ended with $?' 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: bin/ptxas does not run: {{.+}}; set CUDA_HOME to a newer CUDA toolkit
// NONE: ended with 69
func.func @main(%x: tensor<8xf32> {autopar.name = "x"}) -> (tensor<8xf32> {autopar.name = "y"}) {
  %0 = autopar.unary exp %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
