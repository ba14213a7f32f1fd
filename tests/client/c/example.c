/* The program of docs/use/c-api.md. */
#include <kiln.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  const char* text =
      "dim n: 1..4096\n"
      "graph squares(%x: f32[n, 3]) {\n"
      "  %0 = mul %x, %x : f32[n, 3]\n"
      "  output y = %0\n"
      "}\n";
  float x[2][3] = {{1, 2, 3}, {4, 5, 6}}, y[2][3];
  const int64_t shape[] = {2, 3};
  const kiln_array input = {.data = x, .shape = shape, .rank = 2, .type = KILN_F32};
  const kiln_array output = {.data = y, .shape = shape, .rank = 2, .type = KILN_F32, .flags = KILN_WRITABLE};
  kiln_client* client = NULL;
  kiln_graph* graph = NULL;
  kiln_compiled_graph* fn = NULL;
  const int failed = kiln_client_create(NULL, &client) || kiln_graph_parse(text, strlen(text), "squares", &graph) ||
                     kiln_graph_compile(client, graph, NULL, &fn) || kiln_graph_run(fn, &input, 1, &output, 1, NULL);
  if (failed) fprintf(stderr, "%s\n", kiln_error_message());
  if (!failed) printf("%g %g %g\n", y[1][0], y[1][1], y[1][2]);
  kiln_free(fn);
  kiln_free(graph);
  kiln_free(client);
  return failed;
}
