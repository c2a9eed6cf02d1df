// RUN: split-file %s %t
// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,t) loss-scale=fixed" 2>&1 | FileCheck %s --check-prefix=WORD
// WORD: error: loss scale "fixed": unknown scale; expected dynamic or static at character 1
// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,t) loss-scale=dynamic(initial=1000)" 2>&1 | FileCheck %s --check-prefix=POWER
// POWER: error: loss scale "dynamic(initial=1000)": expected initial to be a power of two, from 1 to 2^40 at character 9
// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,t) loss-scale=dynamic(interval=0)" 2>&1 | FileCheck %s --check-prefix=INTERVAL
// INTERVAL: error: loss scale "dynamic(interval=0)": expected interval to be a whole number of steps at character 9
// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,t) loss-scale=dynamic(1024)" 2>&1 | FileCheck %s --check-prefix=ARGUMENT
// ARGUMENT: error: loss scale "dynamic(1024)": dynamic takes options (initial=65536) only, at character 1
// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,t) loss-scale=static(interval=5)" 2>&1 | FileCheck %s --check-prefix=OPTION
// OPTION: error: loss scale "static(interval=5)": unknown option "interval"; static takes scale at character 8

//--- net.mlir
func.func @main(%x: tensor<2xf32> {autopar.name = "x", autopar.trainable = "decay"}) -> (tensor<2xf32> {autopar.name = "y"}) {
  %y = autopar.unary exp %x {autopar.id = "exp"} : tensor<2xf32>
  return %y : tensor<2xf32>
}
