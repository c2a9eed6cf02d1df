// RUN: split-file %s %t
// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(out,target)" 2>&1 | FileCheck %s --check-prefix=OUTPUT
// OUTPUT: error: loss "mse(out,target)": the model has no output "out"; its outputs are y, i

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=hinge(y,target)" 2>&1 | FileCheck %s --check-prefix=LOSS
// LOSS: error: loss "hinge(y,target)": unknown loss; expected softmax_cross_entropy, soft_cross_entropy, distillation, negative_log_likelihood, dpo, ppo, binary_cross_entropy, binary_focal, mean_squared_error, mse, mean_absolute_error, mae, huber, smooth_l1, or the name of a result that is the loss itself, at character 1

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y)" 2>&1 | FileCheck %s --check-prefix=TARGET
// TARGET: error: loss "mse(y)": mse takes a result of the model, a target and weights if wished, such as mse(logits, labels); at character 1

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(i,target)" 2>&1 | FileCheck %s --check-prefix=FLOATS
// FLOATS: error: loss "mse(i,target)": expected "i" to hold floats, got tensor<2xi64>

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,x)" 2>&1 | FileCheck %s --check-prefix=TYPE
// TYPE: error: loss "mse(y,x)": expected the input "x" to be tensor<2x5xf32>, it is tensor<2x4xf32>

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,target)+half*mse(y,target)" 2>&1 | FileCheck %s --check-prefix=FACTOR
// FACTOR: error: loss "mse(y,target)+half*mse(y,target)": expected a number other than 0 in front of '*' at character 15

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,target)+" 2>&1 | FileCheck %s --check-prefix=TERM
// TERM: error: loss "mse(y,target)+": expected a name at character 15

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,target)*2" 2>&1 | FileCheck %s --check-prefix=BEHIND
// BEHIND: error: loss "mse(y,target)*2": expected '+' or nothing more at character 14

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,target) metrics=f1(y,target)" 2>&1 | FileCheck %s --check-prefix=METRIC
// METRIC: error: metric "f1(y,target)": unknown metric; expected accuracy, binary_accuracy, softmax_cross_entropy, soft_cross_entropy, distillation, negative_log_likelihood, dpo, ppo, binary_cross_entropy, binary_focal, mean_squared_error, mse, mean_absolute_error, mae, huber, smooth_l1, or the name of a result of one element, at character 1

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,target) metrics=mae(y,target),mae(y,other)" 2>&1 | FileCheck %s --check-prefix=NAMED
// NAMED: error: metric "mae(y,other)": there is a "mae" already; give this one a name, as in top5=accuracy(logits, labels, top=5)

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,target) metrics=loss=mae(y,target)" 2>&1 | FileCheck %s --check-prefix=RESERVED
// RESERVED: error: metric "mae(y,target)": there is a "loss" already

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,target) metrics=eval_mae=mae(y,target)" 2>&1 | FileCheck %s --check-prefix=EVAL
// EVAL: error: metric "mae(y,target)": "eval_mae" would be what evaluations tell; leave eval_ out

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,target) metrics=accuracy(y,l,top=6)" 2>&1 | FileCheck %s --check-prefix=TOP
// TOP: error: metric "accuracy(y,l,top=6)": expected top to be one of 1 to 5, the number of classes, at character 14

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,target) metrics=accuracy(y)" 2>&1 | FileCheck %s --check-prefix=LABELS
// LABELS: error: metric "accuracy(y)": accuracy takes a result of the model, a target and weights if wished, such as accuracy(logits, labels); at character 1

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,target) metrics=accuracy(y,l),"  2>&1 | FileCheck %s --check-prefix=COMMA
// COMMA: error: metric "": expected a name at character 1

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,target) lr-scale=w=fast" 2>&1 | FileCheck %s --check-prefix=RATE
// RATE: error: lr-scale: expected pattern=number, as in classifier*=10, with a positive number (--freeze keeps values), got "w=fast"

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,target) lr-scale=w=0" 2>&1 | FileCheck %s --check-prefix=NOUGHT
// NOUGHT: error: lr-scale: {{.*}} got "w=0"

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,target) lr-scale=v*=2" 2>&1 | FileCheck %s --check-prefix=RATED
// RATED: error: lr-scale: no parameter that is trained, and that no pattern before has, is called "v*"

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,w)" 2>&1 | FileCheck %s --check-prefix=PARAMETER
// PARAMETER: error: loss "mse(y,w)": the target "w" is a parameter of the model

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=y" 2>&1 | FileCheck %s --check-prefix=SCALAR
// SCALAR: error: loss "y": expected an output of one element, it is tensor<2x5xf32>

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=softmax_cross_entropy(y,l,axis=2)" 2>&1 | FileCheck %s --check-prefix=AXIS
// AXIS: error: loss "softmax_cross_entropy(y,l,axis=2)": "y" is tensor<2x5xf32> and has no such axis

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=softmax_cross_entropy(y,l,label_smoothing=2)" 2>&1 | FileCheck %s --check-prefix=SMOOTHING
// SMOOTHING: error: loss {{.*}}: expected label_smoothing between 0 and 1 at character 27

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,target) optimizer=adamw(lr=3e-4,weigth_decay=0.1)" 2>&1 | FileCheck %s --check-prefix=OPTION
// OPTION: error: optimizer "adamw(lr=3e-4,weigth_decay=0.1)": unknown option "weigth_decay"; adamw takes lr, beta1, beta2, eps, weight_decay, ema, state_bits at character 15

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,target) optimizer=adamw(lr=fast)" 2>&1 | FileCheck %s --check-prefix=NUMBER
// NUMBER: error: optimizer "adamw(lr=fast)": expected a number at character 10

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,target) optimizer=adamw(lr=1" 2>&1 | FileCheck %s --check-prefix=BRACKET
// BRACKET: error: optimizer "adamw(lr=1": expected ',' or ')' at character 11

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,target) optimizer=adamw(lr=1)x" 2>&1 | FileCheck %s --check-prefix=MORE
// MORE: error: optimizer "adamw(lr=1)x": expected nothing more at character 12

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,target) optimizer=adamw(lr=1,lr=2)" 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: error: optimizer "adamw(lr=1,lr=2)": "lr" is given twice at character 12

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,target) optimizer=adamw(beta1=1)" 2>&1 | FileCheck %s --check-prefix=FRACTION
// FRACTION: error: optimizer "adamw(beta1=1)": expected beta1 in [0, 1) at character 7

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,target) optimizer=sgd(lr=-1)" 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// NEGATIVE: error: optimizer "sgd(lr=-1)": expected lr to be finite and not negative at character 5

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,target) optimizer=adamw(eps=1,lr=1e400)" 2>&1 | FileCheck %s --check-prefix=INFINITE
// INFINITE: error: optimizer "adamw(eps=1,lr=1e400)": expected lr to be finite and not negative at character 13

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,target) optimizer=sgd(nesterov=1)" 2>&1 | FileCheck %s --check-prefix=NESTEROV
// NESTEROV: error: optimizer "sgd(nesterov=1)": expected momentum=N for nesterov to look ahead along at character 5

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,target) optimizer=sgd(fast)" 2>&1 | FileCheck %s --check-prefix=ARGUMENT
// ARGUMENT: error: optimizer "sgd(fast)": sgd takes options (lr=0.1) only, at character 1

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,target) optimizer=lamb" 2>&1 | FileCheck %s --check-prefix=OPTIMIZER
// OPTIMIZER: error: optimizer "lamb": unknown optimizer; expected sgd, momentum, adam, adamw, adagrad, lion, muon at character 1

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,target) optimizer=adam(state_bits=8)" 2>&1 | FileCheck %s --check-prefix=BITS
// BITS: error: optimizer "adam(state_bits=8)": expected state_bits to be 16 or 32 at character 6

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,target) optimizer=adamw(state_bits=16)" 2>&1 | FileCheck %s --check-prefix=SLOW
// SLOW: error: optimizer "adamw(state_bits=16)": expected state_bits=32: 16 bits do not follow what keeps more than 0.99 of itself in a step, at character 7

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,target) optimizer=adagrad(state_bits=16)" 2>&1 | FileCheck %s --check-prefix=GROWING
// GROWING: error: optimizer "adagrad(state_bits=16)": expected state_bits=32: 16 bits do not follow what keeps

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,target) optimizer=muon(steps=2.5)" 2>&1 | FileCheck %s --check-prefix=STEPS
// STEPS: error: optimizer "muon(steps=2.5)": expected steps to be a whole number from 1 to 20 at character 6

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,target) optimizer=muon(lr=0,adamw_lr=1)" 2>&1 | FileCheck %s --check-prefix=ADAMWRATE
// ADAMWRATE: error: optimizer "muon(lr=0,adamw_lr=1)": expected adamw_lr beside an lr above 0, of which it is a part at character 11

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,target,w,z)" 2>&1 | FileCheck %s --check-prefix=FOUR
// FOUR: error: loss "mse(y,target,w,z)": mse takes a result of the model, a target and weights if wished, such as mse(logits, labels); at character 1

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=dpo(y,labels)" 2>&1 | FileCheck %s --check-prefix=DPO
// DPO: error: loss "dpo(y,labels)": dpo takes a result of the model, labels and log-probabilities of a reference, such as dpo(logits, labels, reference); at character 1

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=dpo(y,labels,r,axis=0)" 2>&1 | FileCheck %s --check-prefix=PAIRS
// PAIRS: error: loss "dpo(y,labels,r,axis=0)": expected "y" to have pairs of rows in front

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=dpo(y,labels,r,beta=-1)" 2>&1 | FileCheck %s --check-prefix=BETA
// BETA: error: loss "dpo(y,labels,r,beta=-1)": expected beta to be finite and above 0 at character 16

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=ppo(y,actions,a)" 2>&1 | FileCheck %s --check-prefix=PPO
// PPO: error: loss "ppo(y,actions,a)": ppo takes a result of the model, actions, their advantages and their old log-probabilities, such as

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=ppo(y,actions,a,old,clip=2)" 2>&1 | FileCheck %s --check-prefix=CLIPS
// CLIPS: error: loss "ppo(y,actions,a,old,clip=2)": expected clip between 0 and 1 at character 21

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,target,y)" 2>&1 | FileCheck %s --check-prefix=WEIGHTS
// WEIGHTS: error: loss "mse(y,target,y)": weights are an input; "y" is an output of the model

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=smooth_l1(y,target,beta=1e-50)" 2>&1 | FileCheck %s --check-prefix=TINY
// TINY: error: loss "smooth_l1(y,target,beta=1e-50)": expected beta to be finite and above 0 at character 20

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=huber(y,target,delta=0)" 2>&1 | FileCheck %s --check-prefix=DELTA
// DELTA: error: loss "huber(y,target,delta=0)": expected delta to be finite and above 0 at character 16

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=binary_focal(y,target,gamma=0.5)" 2>&1 | FileCheck %s --check-prefix=GAMMA
// GAMMA: error: loss "binary_focal(y,target,gamma=0.5)": expected gamma to be finite and at least 1 at character 23

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,target,delta=1)" 2>&1 | FileCheck %s --check-prefix=NOOPTION
// NOOPTION: error: loss "mse(y,target,delta=1)": unknown option "delta"; mse takes none at character 14

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=distillation(y,target,axis=7)" 2>&1 | FileCheck %s --check-prefix=SOFTAXIS
// SOFTAXIS: error: loss "distillation(y,target,axis=7)": "y" is tensor<{{.*}}> and has no such axis

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="optimizer=sgd" 2>&1 | FileCheck %s --check-prefix=EMPTY
// EMPTY: error: loss "": expected a name at character 1

// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,target) clip-norm=-1" 2>&1 | FileCheck %s --check-prefix=CLIP
// CLIP: error: clip-norm: expected a positive number, got -1

// RUN: not autopar-opt %t/frozen.mlir --autopar-build-training-step="loss=mse(y,target)" 2>&1 | FileCheck %s --check-prefix=FROZEN
// FROZEN: error: has no parameter to train: none is marked autopar.trainable (autopar-choose-trainable marks them)

// RUN: not autopar-opt %t/cut.mlir --autopar-build-training-step="loss=mse(y,target)" 2>&1 | FileCheck %s --check-prefix=CUT
// CUT: error: 'autopar.arg_reduce' op has no gradient, and the loss depends on "w" only through it: freeze that parameter, or choose another loss

// RUN: not autopar-opt %t/flat.mlir --autopar-build-training-step="loss=mse(y,target)" 2>&1 | FileCheck %s --check-prefix=FLAT
// FLAT: error: 'autopar.unary' op has derivative zero everywhere, and the loss depends on "w" only through it: freeze that parameter

// RUN: not autopar-opt %t/foreign.mlir --autopar-build-training-step="loss=mse(y,target)" 2>&1 | FileCheck %s --check-prefix=FOREIGN
// FOREIGN: error: 'math.exp' op stands between a trained parameter and the loss, and has no gradient: freeze the parameters before it

// RUN: not autopar-opt %t/running.mlir --autopar-build-training-step="loss=mse(y,target)" 2>&1 | FileCheck %s --check-prefix=RUNNING
// RUNNING: error: 'autopar.cumulative' op has no gradient: only running sums are differentiated, not running max

// RUN: not autopar-opt %t/pool.mlir --autopar-build-training-step="loss=mse(y,target)" 2>&1 | FileCheck %s --check-prefix=POOL
// POOL: error: 'autopar.pool' op has no gradient: sums, maxima and minima over windows are differentiated, not prod

// RUN: not autopar-opt %t/scatter.mlir --autopar-build-training-step="loss=mse(y,target)" 2>&1 | FileCheck %s --check-prefix=SCATTER
// SCATTER: error: 'autopar.scatter_elements' op has no gradient: only scatters that add or assign are differentiated, not mul

// RUN: autopar-opt %t/unused.mlir --autopar-build-training-step="loss=mse(y,target)" 2>&1 | FileCheck %s --check-prefix=UNUSED
// UNUSED: warning: the loss does not depend on parameter "v"; it keeps its values
// RUN: not autopar-opt %t/nothing.mlir --autopar-build-training-step="loss=mse(y,target)" 2>&1 | FileCheck %s --check-prefix=NOTHING
// NOTHING: error: the loss depends on no parameter that is to be trained

// RUN: not autopar-opt %S/Inputs/empty.mlir --autopar-build-training-step="loss=mse(y,target)" 2>&1 | FileCheck %s --check-prefix=MAIN
// MAIN: error: expected a function @main of one block to train

//--- net.mlir
autopar.origin @w : tensor<4x5xf32>
func.func @main(%x: tensor<2x4xf32> {autopar.name = "x"}, %w: tensor<4x5xf32> {autopar.name = "w", autopar.origin = @w, autopar.trainable = "decay"})
    -> (tensor<2x5xf32> {autopar.name = "y"}, tensor<2xi64> {autopar.name = "i"}) {
  %y = autopar.dot_general %x, %w contract [1] x [0] : (tensor<2x4xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  %i = autopar.arg_reduce max %y dim 1 : tensor<2x5xf32> -> tensor<2xi64>
  return %y, %i : tensor<2x5xf32>, tensor<2xi64>
}
//--- frozen.mlir
autopar.origin @w : tensor<4xf32>
func.func @main(%w: tensor<4xf32> {autopar.name = "w", autopar.origin = @w}) -> (tensor<4xf32> {autopar.name = "y"}) {
  return %w : tensor<4xf32>
}
//--- cut.mlir
autopar.origin @w : tensor<4x5xf32>
func.func @main(%w: tensor<4x5xf32> {autopar.name = "w", autopar.origin = @w, autopar.trainable = "decay"}) -> (tensor<4xf32> {autopar.name = "y"}) {
  %i = autopar.arg_reduce max %w dim 1 : tensor<4x5xf32> -> tensor<4xi64>
  %y = autopar.cast %i : tensor<4xi64> -> tensor<4xf32>
  return %y : tensor<4xf32>
}
//--- flat.mlir
autopar.origin @w : tensor<4xf32>
func.func @main(%w: tensor<4xf32> {autopar.name = "w", autopar.origin = @w, autopar.trainable = "decay"}) -> (tensor<4xf32> {autopar.name = "y"}) {
  %n = autopar.unary neg %w : tensor<4xf32>
  %y = autopar.unary floor %n : tensor<4xf32>
  return %y : tensor<4xf32>
}
//--- foreign.mlir
autopar.origin @w : tensor<4xf32>
func.func @main(%w: tensor<4xf32> {autopar.name = "w", autopar.origin = @w, autopar.trainable = "decay"}) -> (tensor<4xf32> {autopar.name = "y"}) {
  %y = math.exp %w : tensor<4xf32>
  return %y : tensor<4xf32>
}
//--- running.mlir
autopar.origin @w : tensor<4xf32>
func.func @main(%w: tensor<4xf32> {autopar.name = "w", autopar.origin = @w, autopar.trainable = "decay"}) -> (tensor<4xf32> {autopar.name = "y"}) {
  %y = autopar.cumulative max %w dim 0 : tensor<4xf32>
  return %y : tensor<4xf32>
}
//--- pool.mlir
autopar.origin @w : tensor<4xf32>
func.func @main(%w: tensor<4xf32> {autopar.name = "w", autopar.origin = @w, autopar.trainable = "decay"}) -> (tensor<2xf32> {autopar.name = "y"}) {
  %y = autopar.pool prod %w {window = array<i64: 2>, strides = array<i64: 2>, padBegin = array<i64: 0>, padEnd = array<i64: 0>, dilations = array<i64: 1>} : tensor<4xf32> -> tensor<2xf32>
  return %y : tensor<2xf32>
}
//--- scatter.mlir
autopar.origin @w : tensor<4xf32>
func.func @main(%i: tensor<4xi64> {autopar.name = "i"}, %w: tensor<4xf32> {autopar.name = "w", autopar.origin = @w, autopar.trainable = "decay"}) -> (tensor<4xf32> {autopar.name = "y"}) {
  %y = autopar.scatter_elements mul %w, %i, %w dim 0 : (tensor<4xf32>, tensor<4xi64>, tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
//--- unused.mlir
autopar.origin @w : tensor<4xf32>
autopar.origin @v : tensor<4xf32>
func.func @main(%w: tensor<4xf32> {autopar.name = "w", autopar.origin = @w, autopar.trainable = "decay"},
                %v: tensor<4xf32> {autopar.name = "v", autopar.origin = @v, autopar.trainable = "decay"}) -> (tensor<4xf32> {autopar.name = "y"}) {
  %y = autopar.unary exp %w : tensor<4xf32>
  return %y : tensor<4xf32>
}
//--- nothing.mlir
autopar.origin @v : tensor<4xf32>
func.func @main(%x: tensor<4xf32> {autopar.name = "x"}, %v: tensor<4xf32> {autopar.name = "v", autopar.origin = @v, autopar.trainable = "decay"}) -> (tensor<4xf32> {autopar.name = "y"}) {
  %y = autopar.unary exp %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
