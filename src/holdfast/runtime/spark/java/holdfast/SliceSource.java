package holdfast;

import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * One input of a unit as a Spark stream: batch n follows batch n - 1, always, and what it reads is
 * asked for when Spark has planned and compiled it.
 *
 * Types are raw, as the compiler that Spark brings along makes no bridges for generic parameters.
 */
public class SliceSource implements TableProvider {
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        throw new UnsupportedOperationException("a schema must be given");
    }

    public boolean supportsExternalMetadata() {
        return true;
    }

    public Table getTable(StructType schema, Transform[] partitioning, Map properties) {
        return new Slices(schema);
    }

    public static class Slices implements SupportsRead {
        private final StructType schema;

        Slices(StructType schema) {
            this.schema = schema;
        }

        public String name() {
            return "slices";
        }

        public StructType schema() {
            return this.schema;
        }

        public Set capabilities() {
            return EnumSet.of(TableCapability.MICRO_BATCH_READ, TableCapability.BATCH_READ);
        }

        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
            return new SliceScan(this.schema, options);
        }
    }

    public static class SliceScan implements ScanBuilder, Scan {
        private final StructType schema;
        private final CaseInsensitiveStringMap options;

        SliceScan(StructType schema, CaseInsensitiveStringMap options) {
            this.schema = schema;
            this.options = options;
        }

        public Scan build() {
            return this;
        }

        public StructType readSchema() {
            return this.schema;
        }

        public String description() {
            return "slices of " + this.options.get("boundary");
        }

        /** Told here, else Spark would ask for the readers, so for the range, while it plans. */
        public Scan.ColumnarSupportMode columnarSupportMode() {
            return Scan.ColumnarSupportMode.SUPPORTED;
        }

        public Batch toBatch() {
            return new OneBatch(this.schema, this.options);
        }

        public MicroBatchStream toMicroBatchStream(String checkpoint) {
            return new SliceStream(this.schema, this.options);
        }
    }

    /**
     * Rows and time as Spark's own rate-micro-batch source counts them, which stands in for this one
     * where slices go through Python: a checkpoint of one is a checkpoint of the other.
     */
    public static class Clock extends Offset {
        private static final Pattern JSON =
            Pattern.compile("\\{\"offset\": ?(\\d+), ?\"timestamp\": ?(\\d+)\\}");
        final long rows;
        final long millis;

        Clock(long rows, long millis) {
            this.rows = rows;
            this.millis = millis;
        }

        static Clock parse(String json) {
            Matcher found = JSON.matcher(json);
            if (!found.matches()) throw new IllegalArgumentException("not an offset: " + json);
            return new Clock(Long.parseLong(found.group(1)), Long.parseLong(found.group(2)));
        }

        public String json() {
            return "{\"offset\":" + this.rows + ",\"timestamp\":" + this.millis + "}";
        }
    }

    public static class SliceStream implements MicroBatchStream, SupportsAdmissionControl {
        private final StructType schema;
        private final String planner;
        private final int index;
        private final int parts;
        private final int tasks;
        private volatile long number;

        SliceStream(StructType schema, CaseInsensitiveStringMap options) {
            this.schema = schema;
            this.planner = options.get("planner");
            this.index = options.getInt("index", 0);
            this.parts = options.getInt("parts", 1);
            this.tasks = options.getInt("tasks", 1);
        }

        public Offset initialOffset() {
            return new Clock(0L, 0L);
        }

        public Offset deserializeOffset(String json) {
            return Clock.parse(json);
        }

        public Offset latestOffset() {
            throw new UnsupportedOperationException("latestOffset(Offset, ReadLimit) is used");
        }

        public Offset latestOffset(Offset start, ReadLimit limit) {
            Clock clock = (Clock) start;
            return new Clock(clock.rows + this.parts, clock.millis + 1000L);
        }

        public InputPartition[] planInputPartitions(Offset start, Offset end) {
            this.number = ((Clock) end).rows / this.parts - 1L;
            return parts(this.tasks);
        }

        /** Called when the batch is planned and compiled: the one place where a unit waits. */
        public PartitionReaderFactory createReaderFactory() {
            String told = Planners.plan(this.planner, this.number);
            return new SliceReaders(this.schema, told, this.index);
        }

        public void commit(Offset end) {}

        public void stop() {}
    }

    /** A batch by itself: its plan is an option. */
    public static class OneBatch implements Batch {
        private final StructType schema;
        private final CaseInsensitiveStringMap options;

        OneBatch(StructType schema, CaseInsensitiveStringMap options) {
            this.schema = schema;
            this.options = options;
        }

        public InputPartition[] planInputPartitions() {
            return parts(this.options.getInt("tasks", 1));
        }

        public PartitionReaderFactory createReaderFactory() {
            String plan = this.options.get("plan");
            return new SliceReaders(this.schema, plan, this.options.getInt("index", 0));
        }
    }

    static InputPartition[] parts(int count) {
        InputPartition[] parts = new InputPartition[count];
        for (int i = 0; i < parts.length; i++) parts[i] = new Part(i);
        return parts;
    }

    /** Which of the tasks of its input a task is. */
    public static class Part implements InputPartition {
        final int part;

        Part(int part) {
            this.part = part;
        }
    }
}
