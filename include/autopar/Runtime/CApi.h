/* SPDX-License-Identifier: Apache-2.0
 * The runtime for other languages: libautopar_runtime.so. Opens a compiled.bin with all its ranks
 * in this process, takes inputs from memory, runs, gives outputs. No function throws or exits, but
 * autoparClose() and autoparLeave() of a rank that has failed under mpirun end its process, so that
 * mpirun ends the others. A session is used from one thread at a time, and so are those that are
 * beside each other or in one world; others are independent. Exit codes: docs/ExitCodes.md. */
#ifndef AUTOPAR_RUNTIME_CAPI_H
#define AUTOPAR_RUNTIME_CAPI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AUTOPAR_CAPI __attribute__((visibility("default")))

typedef struct AutoParSession AutoParSession;

/* Element types, as in autopar/Base/DataType.h: 0 bool, 1 i8, 2 i16, 3 i32, 4 i64, 5 u8, 6 u16, 7
 * u32, 8 u64, 9 f16, 10 bf16, 11 f32, 12 f64, 13 f8E4M3FN, 14 f8E4M3FNUZ, 15 f8E5M2, 16
 * f8E5M2FNUZ, 17 f4E2M1FN. Those of 8 bits and less take a byte each. */

/* A tensor of the program. Pointers stay valid until the session is closed. */
typedef struct {
  const char *name;
  int32_t dtype;
  int32_t rank;         /* number of dims */
  const int64_t *shape; /* rank numbers */
  int64_t bytes;
} AutoParTensor;

/* Version of this interface; grows when functions are added. */
AUTOPAR_CAPI int32_t autoparApiVersion(void);

/* Opens and loads. threads: per rank, 0 = chosen. initializer: NULL or e.g. "*.bias=zeros,
 * *=normal(0.02), seed=7". Returns 0 and a session in *session, else the code; autoparLastError()
 * has the message. */
AUTOPAR_CAPI int32_t autoparOpen(const char *path, int32_t threads, const char *initializer,
                                 AutoParSession **session);
/* The processes of a job: each is one rank, as mpirun, torchrun or srun say in their variables;
 * without a launcher this process is alone and has all ranks. Sessions that are opened in a world
 * are opened, used and closed by all of its processes in the same order, with the same inputs. One
 * world per process. */
typedef struct AutoParWorld AutoParWorld;
AUTOPAR_CAPI int32_t autoparJoin(AutoParWorld **world);
AUTOPAR_CAPI int32_t autoparRank(const AutoParWorld *world);
AUTOPAR_CAPI int32_t autoparProcesses(const AutoParWorld *world);
/* Leaves, once its sessions are closed; NULL is allowed. Other than NULL or "", `why` says why this
 * process fails: the others then end with 75 and name it. */
AUTOPAR_CAPI void autoparLeave(AutoParWorld *world, const char *why);

/* What else a session is opened with; all may be 0. */
typedef struct {
  int32_t threads;
  const char *initializer;
  /* Of another program of the model: parameters, state and what is made of parameters at load are
   * held once for both where both hold the same. What it holds stays until both are closed. */
  const AutoParSession *beside;
  const AutoParWorld *world;
} AutoParOptions;
AUTOPAR_CAPI int32_t autoparOpenWith(const char *path, const AutoParOptions *options,
                                     AutoParSession **session);
/* Gives all processes of the session's world what process 0 has in `data`. */
AUTOPAR_CAPI int32_t autoparBroadcast(AutoParSession *session, void *data, int64_t bytes);
/* Bytes that all ranks together allocate, and that they use of what the session beside this one
 * holds. */
AUTOPAR_CAPI int64_t autoparOwnBytes(const AutoParSession *session);
AUTOPAR_CAPI int64_t autoparSharedBytes(const AutoParSession *session);
/* 1: a state is that of the session beside this one. */
AUTOPAR_CAPI int32_t autoparSharesState(const AutoParSession *session, const char *name);
/* What files of the initializer give in vain, and which parameters they leave as they are: lines,
 * "" where there is nothing to say; valid until the session is closed. */
AUTOPAR_CAPI const char *autoparRemarks(const AutoParSession *session);
/* Parameters as if the session had been opened with this initializer, of which remarks then tell;
 * state stays. 65: the program trains them. */
AUTOPAR_CAPI int32_t autoparLoadWeights(AutoParSession *session, const char *initializer);
/* Closes; NULL is allowed. */
AUTOPAR_CAPI void autoparClose(AutoParSession *session);

/* Message of the calling thread's last failed call, "" if none; valid until its next call. */
AUTOPAR_CAPI const char *autoparLastError(void);

AUTOPAR_CAPI int32_t autoparWorldSize(const AutoParSession *session);
AUTOPAR_CAPI int32_t autoparInputCount(const AutoParSession *session);
AUTOPAR_CAPI int32_t autoparOutputCount(const AutoParSession *session);
/* index out of range: 65. */
AUTOPAR_CAPI int32_t autoparInput(const AutoParSession *session, int32_t index,
                                  AutoParTensor *tensor);
AUTOPAR_CAPI int32_t autoparOutput(const AutoParSession *session, int32_t index,
                                   AutoParTensor *tensor);

/* Of an input, how many positions each of its dimensions has at least: as many as its shape says,
 * which is the most, or fewer where it was bound to a range. `least` has room for its rank. */
AUTOPAR_CAPI int32_t autoparInputLeast(const AutoParSession *session, int32_t index,
                                       int64_t *least);
/* By how many positions each of them varies: the step of its range, 1 where it does not vary. */
AUTOPAR_CAPI int32_t autoparInputStep(const AutoParSession *session, int32_t index, int64_t *step);
/* The shape that an output has since the last run: where inputs had fewer positions than the most,
 * it has, too. `shape` has room for its rank. */
AUTOPAR_CAPI int32_t autoparOutputShape(const AutoParSession *session, int32_t index,
                                        int64_t *shape);

/* Copies a whole input, row-major. Type and shape must be those of the program. */
AUTOPAR_CAPI int32_t autoparSetInput(AutoParSession *session, const char *name, int32_t dtype,
                                     int32_t rank, const int64_t *shape, const void *data);
/* Runs `steps` steps (counted on from the last call) and collects the outputs of the last. A
 * training step whose loss is NaN or infinite changes no parameter; it is 65 and says where the
 * first NaN came from. */
AUTOPAR_CAPI int32_t autoparRun(AutoParSession *session, int64_t steps);
/* Other than 0: such a step is passed over, and the next one runs. */
AUTOPAR_CAPI void autoparSkipNonFinite(AutoParSession *session, int32_t skips);
/* How many metrics an evaluation gives: of a training step the loss, then what it was compiled
 * with (--metric); 0: the program is no training step. */
AUTOPAR_CAPI int32_t autoparEvaluatedCount(const AutoParSession *session);
/* The name of one of them, valid until the session is closed; NULL where index is out of range. */
AUTOPAR_CAPI const char *autoparEvaluated(const AutoParSession *session, int32_t index);
/* These metrics of the inputs that are set, one number each; changes nothing. 65: there are none.
 */
AUTOPAR_CAPI int32_t autoparEvaluate(AutoParSession *session, double *values);
/* The learning rate of the steps to come. 65: the program is no training step. */
AUTOPAR_CAPI int32_t autoparSetLearningRate(AutoParSession *session, double rate);
/* Writes folder/step-<N>, N being the steps that were run; a whole one or none. For this and the
 * next two, 65: the program is no training step. */
AUTOPAR_CAPI int32_t autoparSaveCheckpoint(AutoParSession *session, const char *folder);
/* Goes on from the newest whole checkpoint of the folder, of any plan and number of ranks: *step is
 * how many steps it has, -1 where there is no checkpoint. */
AUTOPAR_CAPI int32_t autoparLoadCheckpoint(AutoParSession *session, const char *folder,
                                           int64_t *step);
/* Writes the trained parameters to a .safetensors file. */
AUTOPAR_CAPI int32_t autoparExport(AutoParSession *session, const char *path);
/* The same of the moving averages that the optimizer keeps of them (ema=0.999). 65: it keeps none.
 */
AUTOPAR_CAPI int32_t autoparExportAverages(AutoParSession *session, const char *path);
/* Copies a whole output into `data`, which has room for exactly `bytes`, those of its shape. In a
 * world of several processes outputs are at process 0. */
AUTOPAR_CAPI int32_t autoparGetOutput(const AutoParSession *session, const char *name, void *data,
                                      int64_t bytes);
/* What lasts from step to step: trained parameters, the optimizer's state, carried caches. Copied
 * whole and row-major; `data` has room for exactly `bytes` when read. */
AUTOPAR_CAPI int32_t autoparStateCount(const AutoParSession *session);
AUTOPAR_CAPI int32_t autoparState(const AutoParSession *session, int32_t index,
                                  AutoParTensor *tensor);
AUTOPAR_CAPI int32_t autoparGetState(AutoParSession *session, const char *name, void *data,
                                     int64_t bytes);
AUTOPAR_CAPI int32_t autoparSetState(AutoParSession *session, const char *name, int32_t dtype,
                                     int32_t rank, const int64_t *shape, const void *data);

#ifdef __cplusplus
}
#endif

#endif
