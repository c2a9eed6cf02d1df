// RUN: autopar-opt %s --autopar-build-training-step="loss=y optimizer=sgd(lr=0.5) lr-schedule=cosine(warmup=2,steps=10,min=0.1)" | FileCheck %s
// RUN: not autopar-opt %s --autopar-build-training-step="loss=y lr-schedule=stairs(steps=3)" 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not autopar-opt %s --autopar-build-training-step="loss=y lr-schedule=cosine(warmup=5,steps=5)" 2>&1 | FileCheck %s --check-prefix=STEPS
// RUN: not autopar-opt %s --autopar-build-training-step="loss=y lr-schedule=linear(steps=5,warmup=-1)" 2>&1 | FileCheck %s --check-prefix=WARMUP
// RUN: not autopar-opt %s --autopar-build-training-step="loss=y lr-schedule=constant(min=1)" 2>&1 | FileCheck %s --check-prefix=OPTION
// RUN: not autopar-opt %s --autopar-build-training-step="loss=y lr-schedule=cosine(steps=5,min=-1)" 2>&1 | FileCheck %s --check-prefix=LEAST
// RUN: not autopar-opt %s --autopar-build-training-step="loss=y lr-schedule=cosine(steps=5,min=nan)" 2>&1 | FileCheck %s --check-prefix=NAN
// RUN: not autopar-opt %s --autopar-build-training-step="loss=y lr-schedule=wsd(steps=5,warmup=2,decay=4)" 2>&1 | FileCheck %s --check-prefix=DECAY
// RUN: not autopar-opt %s --autopar-build-training-step="loss=y lr-schedule=wsd(steps=5)" 2>&1 | FileCheck %s --check-prefix=NODECAY
// RUN: not autopar-opt %s --autopar-build-training-step="loss=y lr-schedule=wsd(steps=inf,decay=3)" 2>&1 | FileCheck %s --check-prefix=FOREVER
// RUN: not autopar-opt %s --autopar-build-training-step="loss=y lr-schedule=polynomial(steps=5,power=0)" 2>&1 | FileCheck %s --check-prefix=POWER
// RUN: not autopar-opt %s --autopar-build-training-step="loss=y lr-schedule=step(factor=0.5)" 2>&1 | FileCheck %s --check-prefix=EVERY
// RUN: not autopar-opt %s --autopar-build-training-step="loss=y lr-schedule=step(every=3,factor=0)" 2>&1 | FileCheck %s --check-prefix=FACTOR
// RUN: not autopar-opt %s --autopar-build-training-step="loss=y lr-schedule=constant(x)" 2>&1 | FileCheck %s --check-prefix=WORDS

// NAME: error: lr-schedule "stairs(steps=3)": unknown schedule; expected constant, linear, cosine, polynomial, wsd, step, inverse_sqrt
// STEPS: error: lr-schedule "cosine(warmup=5,steps=5)": expected steps=N, more than the warm-up
// WARMUP: error: lr-schedule "linear(steps=5,warmup=-1)": expected a number of warm-up steps
// NAN: error: lr-schedule "cosine(steps=5,min=nan)": expected a rate that is not negative at character 16
// LEAST: error: lr-schedule "cosine(steps=5,min=-1)": expected a rate that is not negative at character 16
// DECAY: error: lr-schedule "wsd(steps=5,warmup=2,decay=4)": expected decay=N, some of the steps behind the warm-up at character 22
// NODECAY: error: lr-schedule "wsd(steps=5)": expected decay=N, some of the steps behind the warm-up at character 1
// FOREVER: error: lr-schedule "wsd(steps=inf,decay=3)": expected steps=N, more than the warm-up at character 5
// POWER: error: lr-schedule "polynomial(steps=5,power=0)": expected a power above 0 at character 20
// EVERY: error: lr-schedule "step(factor=0.5)": expected every=N, a number of steps at character 1
// FACTOR: error: lr-schedule "step(every=3,factor=0)": expected a factor above 0 at character 14
// WORDS: error: lr-schedule "constant(x)": constant takes options (warmup=100) only, at character 1
// OPTION: error: lr-schedule "constant(min=1)":

// The rate is a function of the step's number and the optimizer's rate, both from the control buffer, and a metric.
// CHECK: func.func @main(%{{.*}}: tensor<1xf32> {{.*}}, %[[RATE:.*]]: tensor<f64> {autopar.control = "learning_rate", autopar.initial = 5.000000e-01 : f64{{.*}}, %[[STEP:.*]]: tensor<i64> {autopar.control = "step"
// CHECK-SAME: tensor<f64> {autopar.metric, autopar.name = "learning_rate"}
// CHECK: autopar.unary cos
// CHECK: autopar.compare le
// CHECK: autopar.select
autopar.origin @w : tensor<1xf32>
func.func @main(%w: tensor<1xf32> {autopar.name = "w", autopar.origin = @w, autopar.trainable = "decay"}) -> (tensor<1xf32> {autopar.name = "y"}) {
  %y = autopar.binary mul %w, %w : tensor<1xf32>
  return %y : tensor<1xf32>
}
