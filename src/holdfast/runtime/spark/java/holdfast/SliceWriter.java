package holdfast;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction2;

/**
 * Writes the rows of a batch into slice files, once per boundary, and tells what it wrote.
 *
 * The last columns of a row are its key group on each boundary and its hash.
 */
public class SliceWriter {
    private SliceWriter() {}

    /**
     * Run a batch; `job` is JSON: [start of the files' names, folder of each boundary, ...].
     *
     * Gives JSON: [{"task": n, "files": [[file, ...] for each boundary]}, ...], the files in the
     * order in which their rows came.
     */
    public static String write(Dataset frame, String job) throws IOException {
        return run(frame, job, false);
    }

    /** The same with files that stay in memory until `Held` writes or forgets them. */
    public static String hold(Dataset frame, String job) throws IOException {
        return run(frame, job, true);
    }

    private static String run(Dataset frame, String job, boolean held) throws IOException {
        List words = (List) new ObjectMapper().readValue(job, List.class);
        String stem = (String) words.get(0);
        List folders = new ArrayList(words.subList(1, words.size()));
        Task task = new Task(frame.schema(), folders, stem, held);
        RDD rows = rows(frame);
        Object told = rows.sparkContext().runJob(
            rows, task, ClassTag$.MODULE$.apply(String.class));
        return Arrays.asList((Object[]) told).toString();
    }

    /** What a query hands to foreachBatch is planned already: planning it again costs a batch. */
    private static RDD rows(Dataset frame) {
        LogicalPlan plan = frame.queryExecution().logical();
        return plan instanceof LogicalRDD
            ? ((LogicalRDD) plan).rdd()
            : frame.queryExecution().toRdd();
    }

    public static class Task extends AbstractFunction2 implements Serializable {
        private final StructType schema;
        private final List folders;
        private final String stem;
        private final boolean held;

        Task(StructType schema, List folders, String stem, boolean held) {
            this.schema = schema;
            this.folders = folders;
            this.stem = stem;
            this.held = held;
        }

        public Object apply(Object context, Object rows) {
            int task = ((TaskContext) context).partitionId();
            try {
                return write((Iterator) rows, task);
            } catch (IOException error) {
                throw new IllegalStateException(error.toString(), error);
            }
        }

        private String write(Iterator rows, int task) throws IOException {
            int boundaries = this.folders.size();
            StringBuilder[] told = new StringBuilder[boundaries];
            for (int i = 0; i < boundaries; i++) told[i] = new StringBuilder();
            RowStore store = new RowStore(this.schema.length(), boundaries);
            UnsafeProjection project = null;
            while (rows.hasNext()) {
                Object row = rows.next();
                if (!(row instanceof UnsafeRow)) {
                    if (project == null) project = UnsafeProjection.create(this.schema);
                    row = project.apply((InternalRow) row);
                }
                store.add((UnsafeRow) row);
                if (store.isFull()) flush(store, task, told);
            }
            if (store.rows() > 0) flush(store, task, told);
            StringBuilder line = new StringBuilder("{\"task\":" + task + ",\"files\":[");
            for (int i = 0; i < boundaries; i++) {
                line.append(i == 0 ? "[" : ",[").append(told[i].toString()).append(']');
            }
            return line.append("]}").toString();
        }

        /** One more file on every boundary; so a slice may be larger than memory. */
        private void flush(RowStore store, int task, StringBuilder[] told) throws IOException {
            for (int i = 0; i < told.length; i++) {
                File folder = new File((String) this.folders.get(i));
                String name = this.stem + "-p" + task + "-";
                SliceFile made = new SliceFile(this.schema, store, i);
                String file = this.held ? made.hold(folder, name) : made.write(folder, name);
                if (told[i].length() > 0) told[i].append(',');
                told[i].append(file);
            }
            store.clear();
        }
    }
}
