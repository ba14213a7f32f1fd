/* Models that PyTorch exported, in C99: opened, asked what they take, and run. */
#include <math.h>

#include "check.h"

/* tests/graph/pt2/models/expected.json has what PyTorch gives. */
static float x[] = {0.874842823f,  0.987281382f,  0.250467598f,  -0.793032587f, 0.523101032f,  1.22360575f,
                    -0.945794344f, -1.35291374f,  1.50379491f,   0.503770769f,  -0.568515956f, 0.837596178f,
                    1.78366065f,   -0.195424661f, 0.514916122f,  -1.84747756f,  -0.103163965f, 0.693697691f,
                    -0.54128021f,  0.895174026f,  -0.882507026f, 0.531811237f,  -1.5457772f,   -0.173299819f};
static const float kY[] = {0.481043994f,  3.98697662f, 6.51925516f, 0.841699004f, 0.0630975738f, 10.864397f,
                           2.79077601f,   5.03303862f, 5.67828846f, 0.437891364f, 0.114542194f,  8.66995907f,
                           9.82587337f,   20.3049679f, 12.1592827f, 11.6605177f,  3.73771596f,   0.146334693f,
                           0.0586971641f, 9.49160385f, 16.2135448f, 0.25761652f,  14.3566942f,   0.302841902f};
static const float kMean[] = {0.0616621375f, 0.06241237f, -0.0472664014f, -0.0405658893f};

static const char* folder = "";

static const char* path_of(const char* name) {
  static char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static void describes_itself(kiln_model* model, kiln_compiled_graph* fn) {
  static const char* const kInputs[] = {"b_norm_running_mean", "b_norm_running_var", "b_norm_num_batches_tracked", "x"};
  kiln_tensor_info info;
  CHECK(kiln_graph_input_count(fn) == 4 && kiln_graph_output_count(fn) == 4);
  for (size_t i = 0; i < 4; ++i) {
    CHECK_OK(kiln_graph_input(fn, i, &info));
    CHECK(strcmp(info.name, kInputs[i]) == 0);
  }
  CHECK(info.rank == 2 && info.shape[0] == -1 && info.shape[1] == 4 && info.type == KILN_F32);
  CHECK_OK(kiln_graph_output(fn, 0, &info));
  CHECK(strcmp(info.name, "b_norm_running_mean_next") == 0);
  CHECK_OK(kiln_graph_output(fn, 3, &info));
  CHECK(strcmp(info.name, "y") == 0);

  CHECK(kiln_model_state_count(model) == 3 && kiln_model_state_count(NULL) == 0);
  CHECK(strcmp(kiln_model_state(model, 0), "b_norm_num_batches_tracked") == 0);
  CHECK(kiln_model_state(model, 3) == NULL && kiln_model_state(NULL, 0) == NULL);
}

/* A step of training is a run that takes the states and gives the next ones. */
static void runs(kiln_model* model, kiln_compiled_graph* fn) {
  static const char* const kStates[] = {"b_norm_running_mean", "b_norm_running_var", "b_norm_num_batches_tracked"};
  const int64_t shape[] = {6, 4};
  kiln_tensor *states[3], *outputs[4];
  kiln_array inputs[4], y, mean;
  for (size_t i = 0; i < 3; ++i) {
    CHECK_OK(kiln_model_value(model, kStates[i], &states[i]));
    CHECK_OK(kiln_tensor_array(states[i], &inputs[i]));
  }
  CHECK((inputs[0].flags & KILN_WRITABLE) == 0);
  inputs[3] = array_of(x, KILN_F32, 2, shape);
  CHECK_OK(kiln_graph_results(fn, inputs, 4, outputs, 4, NULL));
  CHECK_OK(kiln_tensor_array(outputs[0], &mean));
  CHECK_OK(kiln_tensor_array(outputs[3], &y));
  CHECK(y.rank == 2 && y.shape[0] == 6 && y.shape[1] == 4 && mean.rank == 1 && mean.shape[0] == 4);
  for (size_t i = 0; i < 24; ++i) CHECK(fabsf(((const float*)y.data)[i] - kY[i]) < 1e-4f);
  for (size_t i = 0; i < 4; ++i) CHECK(fabsf(((const float*)mean.data)[i] - kMean[i]) < 1e-5f);
  for (size_t i = 0; i < 3; ++i) CHECK_OK(kiln_free(states[i]));
  for (size_t i = 0; i < 4; ++i) CHECK_OK(kiln_free(outputs[i]));
}

static void has_a_graph(kiln_client* client, kiln_model* model) {
  kiln_graph* graph;
  kiln_compiled_graph* fn;
  kiln_tensor* weight;
  kiln_array array;
  CHECK_OK(kiln_model_graph(model, &graph));
  CHECK_OK(kiln_graph_compile(client, graph, NULL, &fn));
  CHECK(kiln_graph_input_count(fn) == 6);
  CHECK_OK(kiln_model_value(model, "p_norm_weight", &weight));
  CHECK_OK(kiln_tensor_array(weight, &array));
  CHECK(array.rank == 1 && array.shape[0] == 4 && ((const float*)array.data)[3] == 1);
  CHECK_OK(kiln_free(weight));
  CHECK_OK(kiln_free(fn));
  CHECK_OK(kiln_free(graph));
}

static void mistakes_are_errors(kiln_client* client, kiln_model* model) {
  kiln_model* other;
  kiln_tensor* value;
  kiln_graph* graph;
  kiln_compiled_graph* fn;
  kiln_bytes* package;
  CHECK_FAILS(kiln_model_open(NULL, NULL, &other), KILN_INVALID_ARGUMENT, "`path`");
  CHECK_FAILS(kiln_model_open("nowhere.pt2", NULL, &other), KILN_NOT_FOUND, "nowhere.pt2");
  CHECK_FAILS(kiln_model_open(path_of("steps.pt2"), "walk", &other), KILN_INVALID_ARGUMENT, "walk");
  CHECK_FAILS(kiln_model_open(path_of("expected.json"), NULL, &other), KILN_INVALID_ARGUMENT, "expected.json");
  CHECK_FAILS(kiln_model_value(model, "x", &value), KILN_NOT_FOUND, "no value of `x`");
  CHECK_FAILS(kiln_model_value(model, NULL, &value), KILN_INVALID_ARGUMENT, "`input`");
  CHECK_FAILS(kiln_model_graph((kiln_model*)client, &graph), KILN_INVALID_ARGUMENT,
              "kiln_client, and must be a kiln_model");
  CHECK_FAILS(kiln_model_compile(client, NULL, NULL, &fn), KILN_INVALID_ARGUMENT, "`model`");
  kiln_graph_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.target = "toaster";
  CHECK_FAILS(kiln_model_compile(client, model, &options, &fn), KILN_INVALID_ARGUMENT, "toaster");
  CHECK_OK(kiln_model_compile(client, model, NULL, &fn));
  CHECK_FAILS(kiln_graph_export(client, fn, &package), KILN_INVALID_ARGUMENT, "bound inputs");
  CHECK_OK(kiln_free(fn));
}

int main(int argc, char** argv) {
  kiln_client* client;
  kiln_model* model;
  kiln_compiled_graph* fn;
  CHECK(argc == 2);
  folder = argv[argc - 1];
  CHECK_OK(kiln_client_create(NULL, &client));
  CHECK_OK(kiln_model_open(path_of("steps.pt2"), NULL, &model));
  CHECK_OK(kiln_model_compile(client, model, NULL, &fn));
  describes_itself(model, fn);
  runs(model, fn);
  has_a_graph(client, model);
  mistakes_are_errors(client, model);
  CHECK_OK(kiln_free(model));
  CHECK(kiln_graph_input_count(fn) == 4); /* what needs the model keeps it */
  CHECK_OK(kiln_free(fn));
  CHECK_OK(kiln_free(client));
  return failures != 0;
}
